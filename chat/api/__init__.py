"""What programs and the pages' scripts call: socket, REST, batches, `/v1`. No rule of an answer is here; no `page`."""
