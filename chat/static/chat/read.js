// A page that is only read: a shared conversation, a cited passage.

import { dressCodeOf } from "./dom.js";

dressCodeOf(document);
