package io.camunda.zeebe.process.test.engine;

import com.google.protobuf.GeneratedMessage;
import io.camunda.zeebe.protocol.impl.record.RecordMetadata;
import io.camunda.zeebe.protocol.impl.record.UnifiedRecordValue;
import io.camunda.zeebe.protocol.record.RecordType;
import io.camunda.zeebe.protocol.record.ValueType;
import io.camunda.zeebe.protocol.record.intent.Intent;
import io.grpc.stub.StreamObserver;

/**
 * Writes commands into the engine's log that its test gateway has no call for: those of user tasks, and the result of
 * a listener's job. In the package of the test engine, because the classes that do it are visible only there.
 */
public final class EngineLog {
  private static final int PARTITION = 1;

  private final CommandWriter writer;
  private final GatewayRequestStore requests;

  private EngineLog(CommandWriter writer, GatewayRequestStore requests) {
    this.writer = writer;
    this.requests = requests;
  }

  /** The log behind a test gateway. */
  public static EngineLog of(Object gateway) {
    return new EngineLog(
        (CommandWriter) read(gateway, "writer"), (GatewayRequestStore) read(gateway, "gatewayRequestStore"));
  }

  /** Writes a command whose caller gets the gateway's own answer. */
  public void write(
      long key,
      ValueType type,
      Intent intent,
      UnifiedRecordValue value,
      GeneratedMessage request,
      StreamObserver<?> caller) {
    long id = requests.registerNewRequest(request.getClass(), caller);
    var metadata = new RecordMetadata().recordType(RecordType.COMMAND).requestStreamId(PARTITION);
    writer.writeCommandWithKey(key, value, metadata.requestId(id).valueType(type).intent(intent));
  }

  /** Writes a command without an answer; what becomes of it is in the records. */
  public void write(long key, ValueType type, Intent intent, UnifiedRecordValue value) {
    var metadata = new RecordMetadata().recordType(RecordType.COMMAND).valueType(type).intent(intent);
    writer.writeCommandWithKey(key, value, metadata);
  }

  private static Object read(Object owner, String name) {
    try {
      var field = owner.getClass().getDeclaredField(name);
      field.setAccessible(true);
      return field.get(owner);
    } catch (ReflectiveOperationException error) {
      throw new IllegalStateException("the test engine has changed: " + name, error);
    }
  }
}
