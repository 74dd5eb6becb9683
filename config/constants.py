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

#: Questions of one process between their arrival and their first text, or their call of the model: each some 30 ms of
#: processor time, so that four at once make one wait an eighth of a second (`benchmarks/load`); more wait in line.
TURNS_PREPARED_AT_ONCE = 4
#: A burst waits so long at most before it is told (503, `overloaded`), sixty questions of one moment…
OVERLOAD_BURST_SECONDS = 1.3
#: …so long for opening a conversation: whoever is refused after both waits knows within two seconds…
OVERLOAD_OPENING_SECONDS = 0.5
#: …and where the line has not been empty for as long, everybody this long.
OVERLOAD_WAIT_SECONDS = 0.2

# --- Questions as they are typed -------------------------------------------------------------------------------------

#: How long a process may go on with the words of an index that has changed.
VOCABULARY_CACHE_SECONDS = 300.0
#: Points whose words are read, about a second: further ones have the same words.
VOCABULARY_MOST_POINTS = 10_000

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

#: Above this many points in one collection the table store says that Qdrant is the store for growth.
TABLE_STORE_COMFORTABLE_POINTS = 100_000
#: Deletions are purged this many versions later; a process that missed more loads the collection anew.
TABLE_STORE_PURGE_VERSIONS = 1_000
#: From this similarity on, a use of an answer in memory counts twice.
MEMORY_STRONG_SIMILARITY = 0.95
#: Validated answers that have not taken effect everywhere yet: up to so many are compared with what would be given.
UNSETTLED_ANSWERS_COMPARED = 200
#: Entries of the memory that are compared with one way to ask a new validated answer, the nearest first.
SUPERSEDED_CANDIDATES = 1_000
#: The similarity that stands for the threshold of a memory that is off: it may be switched on later.
SUPERSEDED_SIMILARITY = 0.8
#: How far below the threshold of the memory an entry may be and still be compared: its question is another than the one
#: asked.
SUPERSEDED_SLACK = 0.1
#: Up to so many questions and phrasings that a person writes take effect before the page comes back; more are left to a
#: worker.
ANSWERS_SETTLED_AT_ONCE = 50
#: How many of the nearest entries the second key looks at for one question.
MEMORY_MAX_CANDIDATES = 20
#: Deletions are forgotten this many versions later; a process that missed more loads its array anew.
MEMORY_PURGE_VERSIONS = 1_000
#: A longer question or answer is not kept in memory: nobody asks it twice.
MEMORY_MAX_QUESTION_CHARACTERS = 500
MEMORY_MAX_ANSWER_CHARACTERS = 20_000

# --- Documents -------------------------------------------------------------------------------------------------------

#: What an archive (DOCX, XLSX, PPTX) may unpack to, and its highest ratio of unpacked to packed bytes: zip bombs.
MAX_UNPACKED_BYTES = 200 * 1024 * 1024
MAX_UNPACK_RATIO = 200
#: Cells of a spreadsheet, over all its sheets: minutes of reading.
MAX_WORKBOOK_CELLS = 2_000_000
#: Pages of a PDF, slides of a presentation.
MAX_DOCUMENT_PAGES = 2_000
MAX_DOCUMENT_CHARACTERS = 10_000_000
#: A chunk's aim and ceiling (about 180 and 300 French words).
CHUNK_TARGET_CHARACTERS = 1_100
CHUNK_MAX_CHARACTERS = 1_800
#: What one document may become: passages, and pieces of words in them (some 4 MB of French prose, 1,500 pages). That is
#: embedded in half a minute by the fast model and in six by the other; what is beyond is not read, and the document
#: says so.
MAX_DOCUMENT_CHUNKS = 20_000
MAX_DOCUMENT_WEIGHT = 1_000_000
#: Pages of one site from which the frame around their content is learned: enough for a place that a third of them
#: share.
SITE_SAMPLE_PAGES = 30
#: A longer heading is a paragraph: it would be repeated above each passage of its section.
MAX_HEADING_CHARACTERS = 500
#: Cells up to which the short rows of a table are filled up to its widest.
MAX_FILLED_CELLS = 200_000
#: A longer question or answer is not taken for one, whether found in a document or written by the model.
QA_MAX_ANSWER_CHARACTERS = 6_000
QA_MAX_QUESTION_CHARACTERS = 300
#: The share of the words of an answer written by the model that its chunk must hold.
QA_MIN_GROUNDING = 0.6
#: Questions that a model may write for one chunk, and the length of its reply in tokens.
MAX_UNITS_PER_CHUNK = 8
UNIT_GENERATION_TOKENS = 2_048
#: A file that changed so shortly before it was read may change again within one tick of its file system's clock.
SETTLED_FILE_SECONDS = 2.0
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
#: A worker writes questions for so long at a time, then takes its turn again after other tasks; it lets a waiting
#: indexation go first at once, and comes back after `JOB_REAP_SECONDS`.
QUESTIONS_TURN_SECONDS = 300.0
#: The last answers whose sources say which passages people ask for.
QUESTIONS_USAGE_MESSAGES = 2_000
#: Above this product of questions compared, close questions are looked for only where documents change; pairs kept.
OVERLAP_MAX_COMPARISONS = 400_000_000
OVERLAP_MAX_PAIRS = 1_000
#: Real questions that a rebuild is previewed with, when none are named.
PREVIEW_QUESTIONS = 50
#: A file is read in a process of its own; tests read it in theirs, where their settings and patches are.
PARSE_ISOLATED = True
#: A scanned page, drawn for Tesseract, and how long Tesseract may take for it.
OCR_PAGE_PIXELS = 20_000_000
OCR_PAGE_SECONDS = 60.0
#: The picture of a cited page: enough to read A4 on a wide screen (150 dots an inch are 2.2 million), and how long
#: drawing it may take.
PAGE_PICTURE_PIXELS = 2_500_000
PAGE_PICTURE_SECONDS = 20.0
#: Drawn at the same time in one process; who comes later waits as long as a drawing may take.
PAGE_PICTURES_AT_ONCE = 2
#: Kept in each process (about 0.2 MB each), and by a reader's browser.
PAGE_PICTURES_KEPT = 24
PAGE_PICTURE_CACHE_SECONDS = 3_600
#: Pages of one passage that are shown.
MAX_CITED_PAGES = 4

# --- Pages of the web ------------------------------------------------------------------------------------------------

#: Each wait for a site, and one page with all its redirects.
URL_TIMEOUT_SECONDS = 15.0
URL_TOTAL_SECONDS = 120.0
URL_MAX_REDIRECTS = 5
#: Between two requests of one process to one host: what a polite robot keeps.
URL_HOST_PAUSE_SECONDS = 1.0
#: Sitemaps that an index of sitemaps may name.
SITEMAP_MAX_FILES = 50

# --- Validated answers and questions without an answer ---------------------------------------------------------------

#: A validated answer whose points could not be written is tried again, at the latest after this time.
FAQ_RETRY_MAX_SECONDS = 300.0
FAQ_MAX_PHRASINGS = 30
#: One CSV file, read and checked within the request.
FAQ_MAX_IMPORT_BYTES = 5 * 1024 * 1024
FAQ_MAX_IMPORT_ROWS = 10_000
#: Questions of a file that a request compares with the validated answers: each is embedded. A command compares them
#: all.
FAQ_MAX_COMPARED = 1_000
#: An import that waits for its uploader's choice is forgotten after this time; its rows with what they would replace.
FAQ_PREVIEW_SECONDS = 24 * 3_600
FAQ_MAX_PREVIEW_BYTES = 25 * 1024 * 1024
#: Rows that an import writes in one transaction, about a second of the database's one writer; ...
FAQ_IMPORT_BATCH = 50
#: ... and up to so many are written before the page comes back. More are left to a worker.
FAQ_IMPORT_AT_ONCE = 50
#: Versions kept of a validated answer: the first and the latest ones. Each is as long as the answer.
ANSWER_VERSIONS_KEPT = 50
#: Entries of the memory that one action makes validated answers of; each is compared and indexed within the request.
FAQ_MAX_PROMOTED = 100
#: An agent keeps the newest of its unanswered questions only.
UNANSWERED_MAX_QUESTIONS = 5_000
#: Questions this close mean the same, where the embedding model has no measured profile.
UNANSWERED_GROUP_THRESHOLD = 0.75
#: Questions of a group that one replay asks again: each is a whole turn.
UNANSWERED_REPLAY_QUESTIONS = 20
#: Of the latest turns, how many the page of refused answers reads.
REFUSALS_MAX_TURNS = 1_000
#: Fewer labelled pairs than this are measured, but thresholds drawn from them are not stored.
CALIBRATION_MIN_SAME = 20
CALIBRATION_MIN_DIFFERENT = 50
#: Pairs of one file of `check_pairs` or `calibrate_thresholds`.
MAX_PAIRS = 100_000

# --- Tools -----------------------------------------------------------------------------------------------------------

#: Tools of one round that run at the same time.
TOOL_PARALLEL_CALLS = 4
#: A model that sees is shown so many images of a turn's results, the newest, and none that is larger.
TOOL_MAX_IMAGES = 4
#: The longest answer of a remote tool, and the longest document of tools, that is read.
TOOL_MAX_RESPONSE_BYTES = 2_000_000
TOOL_MAX_DOCUMENT_BYTES = 30_000_000

# --- Conversations ---------------------------------------------------------------------------------------------------

#: The body of a request must come within so long, and a second more for each so many bytes that have come: a slow phone
#: sends its photo, and a connection that drips is closed.
REQUEST_BODY_SECONDS = 20.0
REQUEST_BODY_BYTES_PER_SECOND = 16 * 1024
#: The headers of a request must come within so long, whether it is the first of its connection or a later one.
REQUEST_HEADERS_SECONDS = 10.0
#: Request line and headers together, and how many headers: what nginx (4 × 8 kB) and Apache (100) take by default.
#: Trailers of a body count among them.
REQUEST_HEAD_BYTES = 32 * 1024
REQUEST_HEADERS = 100
#: Requests that a connection may send before the first of them is answered; no browser and no proxy sends any.
REQUESTS_AHEAD = 32
#: Of the connections of a web process, how many may be sockets of readers: the others are kept for requests and probes.
SOCKETS_SHARE = 0.75
#: What staff may send in one form beyond the files in it.
FORM_BYTES = 2 * 1024 * 1024
#: A frame of a page holds one question, in UTF-8 and JSON.
MAX_FRAME_BYTES = 64 * 1024
#: What `/v1` and the batch endpoint read of a request.
API_MAX_BODY_BYTES = 1024 * 1024
#: Texts of one request for vectors: 128 of a thousand characters are about a second of the local model.
API_MAX_EMBEDDED_TEXTS = 128
MAX_BATCH_BYTES = 1024 * 1024
#: The longest result of one tool that a thread keeps.
TOOL_MESSAGE_MAX_CHARACTERS = 50_000
#: A batch that met another writer is replayed so often, first after so long, then after twice that, and so on.
BATCH_TRIES = 3
BATCH_RETRY_SECONDS = 0.05
#: How long after its process died a turn still counts as running; renewed three times in that time.
TURN_LEASE_SECONDS = 30.0
#: Within this time a process sees that an answer of its own is to be stopped, when that was asked of another one.
TURN_STOP_SECONDS = 1.0
#: How often a reader of a turn that another process runs looks whether it has ended.
TURN_POLL_SECONDS = 0.5
#: How long a finished turn's event log stays in memory for a late re-attach.
TURN_LOG_RETENTION_SECONDS = 60.0
#: With Redis: how often what was answered meanwhile is copied there for the other web processes, ...
EVENT_LOG_FLUSH_SECONDS = 0.05
#: ... how long an answer that was never finished is kept there, and about how many pieces of one, ...
EVENT_LOG_TTL_SECONDS = 3600
EVENT_LOG_MAX_ENTRIES = 10_000
#: ... how long Redis may take, and the longest pause before it is tried again.
EVENT_LOG_TIMEOUT_SECONDS = 2.0
EVENT_LOG_RETRY_CEILING_SECONDS = 5.0
#: Pauses between the tries to save an answer while the database is in trouble: half a minute, since it exists nowhere
#: else.
SAVE_RETRY_SECONDS: tuple[float, ...] = (0.2, 1.0, 3.0, 5.0, 10.0, 12.0)
#: How long after an answer its counters, its lesson for the memory and its title are kept: answers come first.
AFTERWARDS_DELAY_SECONDS = 1.0
#: After so long a worker keeps it in the place of a process that did not, so many turns at a look.
UNSETTLED_SECONDS = 60.0
UNSETTLED_BATCH = 100
#: How long a model may take to name a conversation or to summarise it, after its answer.
TITLE_TIMEOUT_SECONDS = 20.0
SUMMARY_TIMEOUT_SECONDS = 20.0
#: How long an open socket or stream may go on asking, stopping and listening before its rights are looked at again.
RIGHTS_CHECK_SECONDS = 5.0
#: A passage longer than this is cut in a prompt.
MAX_PASSAGE_CHARACTERS = 6_000
#: And in an answer without a model: the first one is seldom longer (`CHUNK_TARGET_CHARACTERS`); of ten that were cut at
#: 700, somebody who had not the source understood six.
MAX_FIRST_QUOTE_CHARACTERS = 1_400
MAX_QUOTE_CHARACTERS = 700
#: The longest comment beside a verdict on an answer.
FEEDBACK_MAX_CHARACTERS = 1_000
#: Of a person's conversations, so many of the latest are searched; so many words of the search count.
SEARCH_MAX_CONVERSATIONS = 2_000
SEARCH_MAX_WORDS = 8
#: An export or a shared link holds the last exchanges only, where there are more.
EXPORT_MAX_EXCHANGES = 200
#: A PDF holds about so many lines, two hundred pages: some 3 s of processor at worst, and more than anybody prints.
EXPORT_PDF_MAX_LINES = 10_000
#: Links that one conversation may have at a time.
SHARE_MAX_LINKS = 20

#: How often in a minute somebody may read lists and messages, and export: a page reads a few times a minute, and an
#: export of a long conversation as PDF takes seconds. Behind one address so many people may read at the same time.
READS_PER_MINUTE = 300
EXPORTS_PER_MINUTE = 10
READERS_PER_ADDRESS = 20


# --- Jobs ------------------------------------------------------------------------------------------------------------

#: The pool of the worker that `serve` starts. One process, which ends after each indexing job and is started anew;
#: workers of your own choose theirs on their command line, `prefork` being the one that enforces the limits below.
EMBEDDED_WORKER_POOL = "solo"
#: A job's lease is renewed at each heartbeat; a job whose lease ran out is taken by the reaper.
JOB_LEASE_SECONDS = 60.0
JOB_HEARTBEAT_SECONDS = 10.0
JOB_REAP_SECONDS = 15.0
JOB_MAX_ATTEMPTS = 5
#: The pause before a job that failed for a reason that may pass is tried again, doubled each time up to the ceiling.
JOB_RETRY_SECONDS = 15.0
JOB_RETRY_CEILING_SECONDS = 900.0
#: ... and is missing after this time: six beats, more than the embedded one takes to be started anew after a job.
WORKER_SILENT_SECONDS = 60.0
#: A job is asked to stop, then killed: longer than indexing the largest document with the slowest model.
JOB_SOFT_LIMIT_SECONDS = 6 * 3600
JOB_HARD_LIMIT_SECONDS = 6 * 3600 + 300

# --- Migrations ------------------------------------------------------------------------------------------------------

#: How long a migration waits for a table, on PostgreSQL: below the second after which it looks for deadlocks.
MIGRATION_LOCK_SECONDS = 0.8
#: How often, and after which pause: together some minutes, as long as a back-up of a large site may hold a table.
MIGRATION_TRIES = 150
MIGRATION_PAUSE_SECONDS = 1.0

# --- What is past its time -------------------------------------------------------------------------------------------

#: Rows that the nightly deletion takes in one transaction: others write between two.
RETAIN_BATCH = 200
#: The deletion is asked to stop, then killed; what is left goes the next night.
RETAIN_SOFT_LIMIT_SECONDS = 3 * 3600
RETAIN_HARD_LIMIT_SECONDS = 3 * 3600 + 300
#: The row of a worker that is not seen any more.
WORKER_ROW_DAYS = 30
#: A file of a document that no row names: one that is being stored has no row yet.
ORPHAN_FILE_HOURS = 24

# --- Figures ---------------------------------------------------------------------------------------------------------

#: A day that runs is counted again for who looks at the figures, at most so often, ...
FIGURES_FRESH_SECONDS = 60.0
#: ... and so many days at once: the others wait for the night, or for `manage.py count_days`.
FIGURES_DAYS_AT_ONCE = 3
#: Rows that are read, written or deleted in one go.
FIGURES_BATCH = 500
#: The longest period that is shown.
FIGURES_MAX_DAYS = 731
#: Rows of a list of the most used, of the never used, of topics.
FIGURES_LISTED = 10

# --- Health ----------------------------------------------------------------------------------------------------------

# --- Web processes and admin -----------------------------------------------------------------------------------------

#: How long a browser is known as one in which somebody signed in: wrong tries of others at that name count apart from
#: its own.
KNOWN_BROWSER_DAYS = 90
#: Threads of a web process for steps that wait: one to eight were measured, with the same throughput.
WEB_THREADS = 4
#: How long a stopping server waits for its connections, after its answers have ended.
GRACEFUL_SHUTDOWN_SECONDS = 5
#: A request that is not a file upload.
DATA_UPLOAD_MAX_MEMORY_SIZE = 2 * 1024 * 1024
#: A mail server that is slower than this counts as down.
EMAIL_TIMEOUT = 10
#: Answers to be read again that one page lists; what lies beyond so many pages comes nearer as they are decided on.
REVIEW_PAGE_ANSWERS = 25
REVIEW_MAX_PAGES = 40

# --- Questions of reference ------------------------------------------------------------------------------------------

#: Questions of one set, and real ones of one « what if »: each may be two calls of a model.
GOLDEN_MAX_QUESTIONS = 500
GOLDEN_USUAL_QUESTIONS = 50
#: A file of questions, in bytes.
GOLDEN_MAX_FILE_BYTES = 1_000_000
#: Runs that are kept of each set, and of « what if » for each deployment.
GOLDEN_RUNS_KEPT = 30
#: A worker asks for so many seconds at a time, then takes its turn again after other tasks.
GOLDEN_TURN_SECONDS = 300.0
