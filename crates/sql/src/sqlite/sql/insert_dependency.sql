-- A job waits for another, or need not any more. In: parent, child, what the child does if it fails, how it ended.
insert into punctual_dependencies (parent, child, policy, succeeded) values (?1, ?2, ?3, ?4)
