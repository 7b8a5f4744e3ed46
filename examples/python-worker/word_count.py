"""Counts the words of a text, and sends the count to the user of the job, if it has one."""

from collections import Counter

from punctual import handler


@handler
def word_count(job):
    lines = job.payload["text"].splitlines()
    words = Counter()
    for number, line in enumerate(lines, start=1):
        words.update(line.lower().split())
        job.progress(100 * number / len(lines), f"line {number} of {len(lines)}")
    result = {"words": sum(words.values()), "most_common": words.most_common(3)}
    if job.user_id:
        job.notify(job.user_id, result)
    return result
