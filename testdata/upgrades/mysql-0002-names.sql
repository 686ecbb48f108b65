-- The own tables of MySQL in version 2 with kinds of types by name, after two events of four.
CREATE TABLE `pay` (
  `id` int NOT NULL,
  `amt` int DEFAULT NULL,
  PRIMARY KEY (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;
INSERT INTO `pay` (`id`, `amt`) VALUES ('1', '10');
INSERT INTO `pay` (`id`, `amt`) VALUES ('2', '20');
CREATE TABLE `replicator_checkpoints` (
  `pipeline` varchar(200) COLLATE utf8mb4_bin NOT NULL,
  `id` bigint NOT NULL,
  `epoch` bigint NOT NULL,
  `created` datetime(6) NOT NULL,
  `savepoint` tinyint(1) NOT NULL,
  `document` longtext COLLATE utf8mb4_bin NOT NULL,
  PRIMARY KEY (`pipeline`,`id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
INSERT INTO `replicator_checkpoints` (`pipeline`, `id`, `epoch`, `created`, `savepoint`, `document`) VALUES ('upgraded', '1', '1', '2026-11-30 13:14:36.791232', '0', '{"version":1,"pipeline":"upgraded","epoch":1,"id":1,"created":"2026-11-30T13:14:36.791232483Z","rows":0,"positions":[{"topic":"upgraded.shop.pay","partition":0,"offset":0}]}');
INSERT INTO `replicator_checkpoints` (`pipeline`, `id`, `epoch`, `created`, `savepoint`, `document`) VALUES ('upgraded', '2', '1', '2026-11-30 13:14:36.865394', '0', '{"version":1,"pipeline":"upgraded","epoch":1,"id":2,"created":"2026-11-30T13:14:36.865393622Z","rows":2,"positions":[{"topic":"upgraded.shop.pay","partition":0,"offset":2}],"transactions":[{"pipeline":"upgraded","epoch":1,"checkpoint":2,"worker":0}],"seen":[{"source":"src1","database":"shop","schema":"public","table":"pay","topic":"upgraded.shop.pay","partition":0,"log":"wal","at":[24004420,24004520,0,0],"txn":"721","digests":[13007288091742515854],"count":1,"cursor":1,"sent_ns":1717200004457000000,"ts_ms":1717200004420}]}');
CREATE TABLE `replicator_dead_letters` (
  `pipeline` varchar(200) COLLATE utf8mb4_bin NOT NULL,
  `topic` varchar(255) COLLATE utf8mb4_bin NOT NULL,
  `partition` int NOT NULL,
  `offset` bigint NOT NULL,
  `source` text COLLATE utf8mb4_bin NOT NULL,
  `row_key` varchar(700) COLLATE utf8mb4_bin NOT NULL,
  `class` varchar(100) COLLATE utf8mb4_bin NOT NULL,
  `cause` text COLLATE utf8mb4_bin NOT NULL,
  `key` longblob,
  `value` longblob,
  `headers` longtext COLLATE utf8mb4_bin NOT NULL,
  `record_time` datetime(6) DEFAULT NULL,
  `action` varchar(8) COLLATE utf8mb4_bin DEFAULT NULL,
  `created` datetime(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  PRIMARY KEY (`pipeline`,`topic`,`partition`,`offset`),
  CONSTRAINT `replicator_dead_letters_chk_1` CHECK ((`action` in (_utf8mb4'retry',_utf8mb4'drop')))
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
CREATE TABLE `replicator_log` (
  `pipeline` varchar(200) COLLATE utf8mb4_bin NOT NULL,
  `epoch` bigint NOT NULL,
  `checkpoint` bigint NOT NULL,
  `worker` int NOT NULL,
  `part` int NOT NULL,
  `piece` int NOT NULL,
  `sum` binary(32) NOT NULL,
  `body` longblob NOT NULL,
  PRIMARY KEY (`pipeline`,`epoch`,`checkpoint`,`worker`,`part`,`piece`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
CREATE TABLE `replicator_pipelines` (
  `pipeline` varchar(200) COLLATE utf8mb4_bin NOT NULL,
  `epoch` bigint NOT NULL,
  `acquired` datetime(6) NOT NULL,
  PRIMARY KEY (`pipeline`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
INSERT INTO `replicator_pipelines` (`pipeline`, `epoch`, `acquired`) VALUES ('upgraded', '1', '2026-11-30 13:14:36.723700');
CREATE TABLE `replicator_schema_migrations` (
  `version` bigint NOT NULL,
  PRIMARY KEY (`version`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci;
INSERT INTO `replicator_schema_migrations` (`version`) VALUES ('2');
CREATE TABLE `replicator_schema_version` (
  `pipeline` varchar(200) COLLATE utf8mb4_bin NOT NULL,
  `by_source` binary(32) NOT NULL,
  `source` text COLLATE utf8mb4_bin NOT NULL,
  `target_schema` varchar(200) COLLATE utf8mb4_bin NOT NULL,
  `target_table` varchar(200) COLLATE utf8mb4_bin NOT NULL,
  `state` longtext COLLATE utf8mb4_bin NOT NULL,
  `updated` datetime(6) NOT NULL,
  PRIMARY KEY (`pipeline`,`by_source`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
INSERT INTO `replicator_schema_version` (`pipeline`, `by_source`, `source`, `target_schema`, `target_table`, `state`, `updated`) VALUES ('upgraded', 0x6FB0C4BBA1B04730203A90AEC2EC410A8821179C270A09432389976D27803552, 'shop.public.pay', '', 'pay', '{"at":{"log":"wal","at":[24004210,24004310,0,0],"txn":"720"},"offset":-1,"topic":"upgraded.shop.pay","table":{"Name":{"Schema":"public","Table":"pay"},"Columns":[{"Name":"id","Type":{"Kind":"unknown","Length":0,"Scale":0,"Values":null,"Elem":null,"Native":""},"NotNull":true,"AutoIncrement":false,"Generated":false,"Folds":false,"Collation":"","Default":null,"Comment":""},{"Name":"amt","Type":{"Kind":"unknown","Length":0,"Scale":0,"Values":null,"Elem":null,"Native":""},"NotNull":false,"AutoIncrement":false,"Generated":false,"Folds":false,"Collation":"","Default":null,"Comment":""}],"PrimaryKey":["id"],"Unique":null,"Indexes":null,"References":null,"Comment":"","Tied":false,"PrimaryKeyName":""}}', '2026-11-30 13:14:36.805659');
CREATE TABLE `replicator_witness` (
  `pipeline` varchar(200) COLLATE utf8mb4_bin NOT NULL,
  `worker` int NOT NULL,
  `epoch` bigint NOT NULL,
  `checkpoint` bigint NOT NULL DEFAULT '0',
  `written` bigint NOT NULL DEFAULT '0',
  `updated` datetime(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  `note` longblob,
  PRIMARY KEY (`pipeline`,`worker`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
INSERT INTO `replicator_witness` (`pipeline`, `worker`, `epoch`, `checkpoint`, `written`, `updated`, `note`) VALUES ('upgraded', '0', '1', '2', '1', '2026-11-30 13:14:36.846050', NULL);
