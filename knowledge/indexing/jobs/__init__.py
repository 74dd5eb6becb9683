"""Long jobs as rows: an `IndexBuild` is queued, claimed under a lease, kept alive by a heartbeat, and reaped.

The row is the truth and a Celery message only a nudge, so a lost or doubled message does no harm:
`IndexBuild.objects.claim` lets one worker win, a worker that dies lets its lease run out, and `lease.reap_builds`
queues the build again. Commands run the same verbs inline. Imports the rest of `knowledge.indexing`, which never
imports it.
"""
