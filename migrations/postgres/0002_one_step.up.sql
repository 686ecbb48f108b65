-- What a transaction that was committed in one step says of itself, in delivery one-phase the positions that it leads to.
ALTER TABLE replicator.witness ADD COLUMN note bytea;

-- The statements of checkpoints in delivery write-ahead: written before the checkpoint that lists them is saved, applied
-- after it, then deleted.
CREATE TABLE replicator.log (
    pipeline   text    NOT NULL,
    epoch      bigint  NOT NULL,
    checkpoint bigint  NOT NULL,
    worker     integer NOT NULL,
    part       integer NOT NULL,
    sum        bytea   NOT NULL,
    body       bytea   NOT NULL,
    PRIMARY KEY (pipeline, epoch, checkpoint, worker, part)
);
ALTER TABLE replicator.log ALTER COLUMN body SET STORAGE EXTERNAL;
