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

#: Questions wait so long for a place before they are told (503, `overloaded`).
OVERLOAD_WAIT_SECONDS = 1.3

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

# --- Vectors in the table, and the memory guard ----------------------------------------------------------------------

#: Validated answers that have not taken effect everywhere yet: up to so many are compared with what would be given.
UNSETTLED_ANSWERS_COMPARED = 200
#: Entries of the memory that are compared with one way to ask a new validated answer, the nearest first.
SUPERSEDED_CANDIDATES = 1_000
#: The similarity that stands for the threshold of a memory that is off: it may be switched on later.
SUPERSEDED_SIMILARITY = 0.8
#: How far below the threshold of the memory an entry may be and still be compared: its question is another than the one
#: asked.
SUPERSEDED_SLACK = 0.1
#: How many of the nearest entries the second key looks at for one question.
MEMORY_MAX_CANDIDATES = 20
#: A longer question or answer is not kept in memory: nobody asks it twice.
MEMORY_MAX_QUESTION_CHARACTERS = 500
MEMORY_MAX_ANSWER_CHARACTERS = 20_000

# --- Documents -------------------------------------------------------------------------------------------------------

#: Pages of a PDF, slides of a presentation.
MAX_DOCUMENT_PAGES = 2_000
MAX_DOCUMENT_CHARACTERS = 10_000_000
#: A longer heading is a paragraph: it would be repeated above each passage of its section.
MAX_HEADING_CHARACTERS = 500
#: Cells up to which the short rows of a table are filled up to its widest.
MAX_FILLED_CELLS = 200_000
#: A longer question or answer is not taken for one, whether found in a document or written by the model.
QA_MAX_ANSWER_CHARACTERS = 6_000
QA_MAX_QUESTION_CHARACTERS = 300
UNIT_GENERATION_TOKENS = 2_048
#: After so many in a row the model is not asked any more: errors, passages whose replies had not the form asked for,
#: and passages of whose units none could be kept, which happens to a small model now and then.
QUESTIONS_FAILURES = 3
QUESTIONS_UNREADABLE_PASSAGES = 5
QUESTIONS_USELESS_PASSAGES = 20
#: Passages chosen at once: what people asked for meanwhile goes first in the next choice.
QUESTIONS_CHOICE = 64
#: Written questions are found after so many passages, or so many seconds, whichever comes first.
QUESTIONS_WRITE_PASSAGES = 32
QUESTIONS_WRITE_SECONDS = 20.0
#: How often a job that waits for the model looks at its row: it is stopped within this time and one call.
QUESTIONS_LOOK_SECONDS = 2.0
#: The last answers whose sources say which passages people ask for.
QUESTIONS_USAGE_MESSAGES = 2_000
#: A file is read in a process of its own; tests read it in theirs, where their settings and patches are.
PARSE_ISOLATED = True

# --- Validated answers and questions without an answer ---------------------------------------------------------------

FAQ_MAX_PHRASINGS = 30
#: One CSV file, read and checked within the request.
FAQ_MAX_IMPORT_BYTES = 5 * 1024 * 1024
FAQ_MAX_IMPORT_ROWS = 10_000
#: An import that waits for its uploader's choice is forgotten after this time; its rows with what they would replace.
FAQ_PREVIEW_SECONDS = 24 * 3_600
#: Versions kept of a validated answer: the first and the latest ones. Each is as long as the answer.
ANSWER_VERSIONS_KEPT = 50
#: Entries of the memory that one action makes validated answers of; each is compared and indexed within the request.
FAQ_MAX_PROMOTED = 100
#: An agent keeps the newest of its unanswered questions only.
UNANSWERED_MAX_QUESTIONS = 5_000
#: Of the latest turns, how many the page of refused answers reads.
REFUSALS_MAX_TURNS = 1_000
#: Fewer labelled pairs than this are measured, but thresholds drawn from them are not stored.
CALIBRATION_MIN_SAME = 20
CALIBRATION_MIN_DIFFERENT = 50

# --- Tools -----------------------------------------------------------------------------------------------------------

#: Tools of one round that run at the same time.
TOOL_PARALLEL_CALLS = 4
#: A model that sees is shown so many images of a turn's results, the newest, and none that is larger.
TOOL_MAX_IMAGES = 4
#: The longest answer of a remote tool, and the longest document of tools, that is read.
TOOL_MAX_RESPONSE_BYTES = 2_000_000
TOOL_MAX_DOCUMENT_BYTES = 30_000_000

# --- Conversations ---------------------------------------------------------------------------------------------------

#: A frame of a page holds one question, in UTF-8 and JSON.
MAX_FRAME_BYTES = 64 * 1024
#: What `/v1` and the batch endpoint read of a request.
API_MAX_BODY_BYTES = 1024 * 1024
MAX_BATCH_BYTES = 1024 * 1024
#: How long after its process died a turn still counts as running; renewed three times in that time.
TURN_LEASE_SECONDS = 30.0
#: Within this time a process sees that an answer of its own is to be stopped, when that was asked of another one.
TURN_STOP_SECONDS = 1.0
#: How long a finished turn's event log stays in memory for a late re-attach.
TURN_LOG_RETENTION_SECONDS = 60.0
#: Pauses between the tries to save an answer while the database is in trouble: half a minute, since it exists nowhere
#: else.
SAVE_RETRY_SECONDS: tuple[float, ...] = (0.2, 1.0, 3.0, 5.0, 10.0, 12.0)
#: How long after an answer its counters, its lesson for the memory and its title are kept: answers come first.
AFTERWARDS_DELAY_SECONDS = 1.0
#: How long an open socket or stream may go on asking, stopping and listening before its rights are looked at again.
RIGHTS_CHECK_SECONDS = 5.0
#: A passage longer than this is cut in a prompt.
MAX_PASSAGE_CHARACTERS = 6_000
#: The longest comment beside a verdict on an answer.
FEEDBACK_MAX_CHARACTERS = 1_000

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

#: Threads of a web process for steps that wait: one to eight were measured, with the same throughput.
WEB_THREADS = 4
#: A request that is not a file upload.
DATA_UPLOAD_MAX_MEMORY_SIZE = 2 * 1024 * 1024
#: A mail server that is slower than this counts as down.
EMAIL_TIMEOUT = 10
#: Answers to be read again that one page lists; what lies beyond so many pages comes nearer as they are decided on.
REVIEW_PAGE_ANSWERS = 25

# --- Questions of reference ------------------------------------------------------------------------------------------

#: Questions of one set, and real ones of one « what if »: each may be two calls of a model.
GOLDEN_MAX_QUESTIONS = 500
GOLDEN_USUAL_QUESTIONS = 50
#: Runs that are kept of each set, and of « what if » for each deployment.
GOLDEN_RUNS_KEPT = 30
#: A worker asks for so many seconds at a time, then takes its turn again after other tasks.
GOLDEN_TURN_SECONDS = 300.0
