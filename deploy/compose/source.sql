-- The source: a user for Debezium, and a table to change.
CREATE USER debezium IDENTIFIED BY 'debezium';
GRANT SELECT, RELOAD, SHOW DATABASES, LOCK TABLES, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO debezium;

CREATE TABLE customers (
  id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY,
  name VARCHAR(100) NOT NULL,
  balance DECIMAL(12,2) NOT NULL DEFAULT 0,
  created TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6)
);
INSERT INTO customers (name, balance) VALUES ('Ada', 12.50), ('Blaise', -3.00), ('Carl', 0);
