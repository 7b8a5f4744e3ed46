//! The operations of the port within one transaction, for engines that do not do the most of it in statements of their
//! own. An engine brings a connection and the texts of the statements.
//!
//! | question | file |
//! |---|---|
//! | which statements are there? | `statements` |
//! | how are they the port? | `store` |
//! | what is one operation under way? | `tx` |
//! | enqueue, claim, settle | `enqueue`, `claim`, `settle` |
//! | where do jobs stand, who holds them? | `places`, `running` |
//! | what waits for what, and workflows | `flow`, `workflows` |
//! | limits | `gated`, `gates`; what a claim takes where there are any, `choice`; what cancelled jobs still occupy, `slots` |
//! | operators' actions, retention | `change`, `remove` |
//! | jobs, histories, counters, lists | `read`, `list` |
//! | what happened since somebody looked | `changes` |
//! | schedules, queues | `schedules`, `queues` |
//! | workers and locks | `registry` |
//! | messages to users, tokens | `notifications`, `tokens` |
//! | which of many can be done at once? | `apart` |
//! | what another store hands over | `import` |
//! | what `punctual doctor` looks at | `examine` |

pub(crate) mod apart;
pub(crate) mod change;
pub(crate) mod changes;
pub(crate) mod choice;
pub(crate) mod claim;
pub(crate) mod enqueue;
pub(crate) mod examine;
pub(crate) mod flow;
pub(crate) mod gated;
pub(crate) mod gates;
pub(crate) mod import;
pub(crate) mod list;
pub(crate) mod notifications;
pub(crate) mod places;
pub(crate) mod queues;
pub(crate) mod read;
pub(crate) mod registry;
pub(crate) mod remove;
pub(crate) mod rows;
pub(crate) mod running;
pub(crate) mod schedules;
pub(crate) mod settle;
pub(crate) mod slots;
pub(crate) mod statements;
pub(crate) mod store;
pub(crate) mod tokens;
pub(crate) mod tx;
pub(crate) mod workflows;
