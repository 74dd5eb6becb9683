// A page that is only read: shared, cited, or kept of a closed deployment.

import { dressCodeOf } from "./dom.js";

dressCodeOf(document);
