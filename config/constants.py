"""Bounds, delays and sizes that no operator has had a reason to change, each with its unit and reason.

`config.settings` takes all of them over, so that code reads them from `django.conf.settings` and a test may override
one. What depends on the machine, on outside services or on the site's policy is a variable of the environment there.
Sizes are in bytes where the name does not say otherwise; times are in the unit of the name.
"""

# --- Configuration read from the database ----------------------------------------------------------------------------

#: A burst of questions reads the settings of its deployment once; what staff save applies within this time.
CONFIG_CACHE_SECONDS = 1.0
#: How long a process may go on with limits on asking that staff have changed.
RATE_LIMITS_CACHE_SECONDS = 10.0
#: How long a process may go on with thresholds that another one has calibrated anew.
CALIBRATION_CACHE_SECONDS = 60.0
#: Database steps of a turn run in threads of their own; tests share one, to see their own transaction.
DATABASE_THREAD_SENSITIVE = False

# --- Questions as they are typed -------------------------------------------------------------------------------------

#: How long a process may go on with the words of an index that has changed.
VOCABULARY_CACHE_SECONDS = 300.0

# --- Language model and embedding server -----------------------------------------------------------------------------

#: A server that answers at all accepts a connection within this time.
LLM_CONNECT_TIMEOUT_SECONDS = 5.0
#: Above the 500 streams at once that one process was measured with.
LLM_MAX_CONNECTIONS = 600
#: Between two reads of one reply once its text has begun: people see 60 ms at the earliest (`benchmarks/load`).
LLM_READ_PAUSE_SECONDS = 0.045
#: Further tries of one batch of texts, with growing pauses.
EMBEDDING_MAX_RETRIES = 2

# --- Documents -------------------------------------------------------------------------------------------------------

#: A file is read in a process of its own; tests read it in theirs, where their settings and patches are.
PARSE_ISOLATED = True

# --- Validated answers and questions without an answer ---------------------------------------------------------------

#: An import that waits for its uploader's choice is forgotten after this time; its rows with what they would replace.
FAQ_PREVIEW_SECONDS = 24 * 3_600

# --- Conversations ---------------------------------------------------------------------------------------------------

#: A frame of a page holds one question, in UTF-8 and JSON.
MAX_FRAME_BYTES = 64 * 1024
#: Pauses between the tries to save an answer while the database is in trouble: half a minute, since it exists nowhere
#: else.
SAVE_RETRY_SECONDS: tuple[float, ...] = (0.2, 1.0, 3.0, 5.0, 10.0, 12.0)
#: How long after an answer its counters, its lesson for the memory and its title are kept: answers come first.
AFTERWARDS_DELAY_SECONDS = 1.0
#: How long an open socket or stream may go on asking, stopping and listening before its rights are looked at again.
RIGHTS_CHECK_SECONDS = 5.0

# --- Jobs ------------------------------------------------------------------------------------------------------------

#: A job's lease is renewed at each heartbeat; a job whose lease ran out is taken by the reaper.
JOB_LEASE_SECONDS = 60.0
JOB_HEARTBEAT_SECONDS = 10.0
JOB_REAP_SECONDS = 15.0
JOB_MAX_ATTEMPTS = 5
#: ... and is missing after this time: six beats, more than the embedded one takes to be started anew after a job.
WORKER_SILENT_SECONDS = 60.0
#: A job is asked to stop, then killed: longer than indexing the largest document with the slowest model.
JOB_SOFT_LIMIT_SECONDS = 6 * 3600
JOB_HARD_LIMIT_SECONDS = 6 * 3600 + 300

# --- What is past its time -------------------------------------------------------------------------------------------

#: Rows that the nightly deletion takes in one transaction: others write between two.
RETAIN_BATCH = 200
#: The row of a worker that is not seen any more.
WORKER_ROW_DAYS = 30
#: A file of a document that no row names: one that is being stored has no row yet.
ORPHAN_FILE_HOURS = 24

# --- Web processes and admin -----------------------------------------------------------------------------------------

#: A request that is not a file upload.
DATA_UPLOAD_MAX_MEMORY_SIZE = 2 * 1024 * 1024
#: A mail server that is slower than this counts as down.
EMAIL_TIMEOUT = 10

# --- Questions of reference ------------------------------------------------------------------------------------------

#: Runs that are kept of each set, and of « what if » for each deployment.
GOLDEN_RUNS_KEPT = 30
