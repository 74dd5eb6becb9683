// A page that is only read: a cited passage.

import { dressCodeOf } from "./dom.js";

dressCodeOf(document);
