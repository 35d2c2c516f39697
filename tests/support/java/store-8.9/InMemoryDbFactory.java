package io.camunda.zeebe.process.test.engine.db;

import io.camunda.zeebe.db.AccessMetricsConfiguration;
import io.camunda.zeebe.db.ConsistencyChecksSettings;
import io.camunda.zeebe.db.ZeebeDb;
import io.camunda.zeebe.db.impl.rocksdb.RocksDbConfiguration;
import io.camunda.zeebe.db.impl.rocksdb.ZeebeRocksDbFactory;
import io.camunda.zeebe.protocol.EnumValue;
import io.camunda.zeebe.protocol.ScopedColumnFamily;
import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;

/**
 * Stands before the test engine's class of this name: the 8.9 engine calls methods its in-memory store
 * never had, so it gets the store it has in production.
 */
public class InMemoryDbFactory<
    Family extends Enum<? extends EnumValue> & EnumValue & ScopedColumnFamily> {
  private static final long MEMORY = 64L * 1024 * 1024;

  public ZeebeDb<Family> createDb() {
    var noMetrics = new AccessMetricsConfiguration(AccessMetricsConfiguration.Kind.NONE, 1);
    var store =
        new ZeebeRocksDbFactory<Family>(
            new RocksDbConfiguration().setMemoryLimit(MEMORY),
            new ConsistencyChecksSettings(),
            noMetrics,
            SimpleMeterRegistry::new);
    try {
      return store.createDb(Files.createTempDirectory("state").toFile());
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }
}
