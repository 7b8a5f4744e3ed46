-- Every queue is given to the dispatcher anew.
with g as (
    update punctual_dispatch_queues set epoch = epoch + 1, opens_at = d.opens_at, opened_at = null, loaded = false from punctual_dispatch d)
update punctual_dispatch set due_until = null
