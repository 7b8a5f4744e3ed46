-- A job waits for another, or need not any more. In: parent, child, what the child does if it fails, how it ended.
insert into punctual_dependencies (parent, child, policy, succeeded) values (@P1, @P2, @P3, @P4)
