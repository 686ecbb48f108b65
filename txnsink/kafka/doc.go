// Package kafka is the sink on Kafka, 2.5 and later: what becomes of rows is published to one topic, the changes of a
// checkpoint in one Kafka transaction for each worker. A reader with isolation.level=read_committed sees each change once.
//
// # Two topics
//
// The topic of the URL has the changes, as sqlgen.JSON writes them. The control topic, <topic>.replicator, has what a database's own
// tables would: witnesses, fences, the shapes of tables and what is remembered of them. It has one partition and is compacted.
//
// # Prepared
//
// Kafka knows no prepared transactions, but a transaction that nobody ends stays open until its time-out, whoever has died, and
// anybody who knows its transactional id, producer id and epoch can end it. So PreCommit sends all records, and then the
// witness, as the transaction's last record, to the control topic. That topic is read with isolation.level=read_uncommitted, together
// with the markers by which Kafka ends transactions, and so says of each witness which it is:
//
//	no marker follows   prepared: the record's own batch has the producer id and the epoch that are needed to end it
//	a commit marker     committed
//	an abort marker     as if it had never been: rolled back by somebody, or by the broker when its time-out was over
//
// EndTxn is sent as a request of its own. A producer that was made anew for the same transactional id would begin by aborting
// what is prepared: none is made before the fence has seen that nothing is in doubt.
//
// A worker has two transactional ids, so that its next transaction may be open while one is in doubt.
//
// # Fence
//
// The fence is a record too, written in a transaction of the pipeline's leader, whose transactional id every run takes over before it
// looks at the fence that is there: of two runs at once the one that was later to take it is the only one that can write. Then all
// workers' transactional ids are taken over as well, which ends what earlier runs had open. A run that makes a producer later
// looks at the fence after it has done so. If it is still the run's own, then every later fence comes after that, and takes the
// transactional id away again. So no transaction of an earlier epoch can be ended by its own run, and PreCommit need not ask.
//
// # Time-out
//
// The broker ends a transaction that is older than its time-out, prepared or not (Config.Timeout, at most the broker's
// transaction.max.timeout.ms). A process that is away for longer, between the save of a checkpoint and its commit, has lost the
// checkpoint's transactions: that is txnsink.ErrLost.
package kafka
