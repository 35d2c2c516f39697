import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpHandler;
import io.camunda.zeebe.process.test.api.ZeebeTestEngine;
import io.camunda.zeebe.process.test.engine.EngineLog;
import io.camunda.zeebe.protocol.impl.encoding.MsgPackConverter;
import io.camunda.zeebe.protocol.impl.record.value.usertask.UserTaskRecord;
import io.camunda.zeebe.protocol.record.Record;
import io.camunda.zeebe.protocol.record.RecordType;
import io.camunda.zeebe.protocol.record.RejectionType;
import io.camunda.zeebe.protocol.record.ValueType;
import io.camunda.zeebe.protocol.record.intent.UserTaskIntent;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.Set;
import java.util.function.Supplier;
import org.agrona.concurrent.UnsafeBuffer;

/**
 * The user-task calls of REST v2 over the engine's log: completion, assignment, release.
 *
 * <p>The engine decides, asks its listeners and rejects; only the paths, statuses and problem JSON are ours, as a real
 * 8.9.17 wrote them.
 */
final class UserTaskRest implements HttpHandler {
  static final String PATH = "/v2/user-tasks/";

  private static final ObjectMapper JSON = new ObjectMapper();
  private static final long PATIENCE_NANOS = 10_000_000_000L;
  private static final Set<UserTaskIntent> DONE = Set.of(UserTaskIntent.COMPLETED, UserTaskIntent.ASSIGNED);
  private static final Map<UserTaskIntent, String> DENIED =
      Map.of(UserTaskIntent.COMPLETION_DENIED, "Completion", UserTaskIntent.ASSIGNMENT_DENIED, "Assignment");

  private final ZeebeTestEngine engine;
  private final Supplier<EngineLog> log;

  UserTaskRest(ZeebeTestEngine engine, Supplier<EngineLog> log) {
    this.engine = engine;
    this.log = log;
  }

  @Override
  public void handle(HttpExchange exchange) throws IOException {
    try (exchange) {
      var path = exchange.getRequestURI().getPath();
      var parts = path.substring(PATH.length()).split("/");
      var body = exchange.getRequestBody().readAllBytes();
      var request = body.length == 0 ? JSON.createObjectNode() : JSON.readTree(body);
      long key = Long.parseLong(parts[0]);
      long before = lastPosition();
      var intent = intent(parts[1], exchange.getRequestMethod(), request);
      log.get().write(key, ValueType.USER_TASK, intent, record(key, intent, request));
      answer(exchange, path, intent, await(key, before));
    }
  }

  private static UserTaskIntent intent(String call, String method, JsonNode request) {
    if (call.equals("completion")) {
      return UserTaskIntent.COMPLETE;
    }
    boolean claims = call.equals("assignment") && !request.path("allowOverride").asBoolean(true);
    return claims ? UserTaskIntent.CLAIM : UserTaskIntent.ASSIGN;
  }

  private static UserTaskRecord record(long key, UserTaskIntent intent, JsonNode request) throws IOException {
    var record = new UserTaskRecord().setUserTaskKey(key);
    record.setAssignee(request.path("assignee").asText(""));
    record.setAction(request.path("action").asText(""));
    if (request.hasNonNull("variables")) {
      var packed = MsgPackConverter.convertToMsgPack(JSON.writeValueAsString(request.get("variables")));
      record.setVariables(new UnsafeBuffer(packed));
    }
    return record;
  }

  private long lastPosition() {
    long last = -1;
    for (var record : engine.getRecordStreamSource().getRecords()) {
      last = record.getPosition();
    }
    return last;
  }

  private Record<?> await(long key, long after) {
    long deadline = System.nanoTime() + PATIENCE_NANOS;
    while (System.nanoTime() < deadline) {
      for (var record : engine.getRecordStreamSource().getRecords()) {
        if (record.getPosition() > after && record.getKey() == key && isAnswer(record)) {
          return record;
        }
      }
      try {
        Thread.sleep(10);
      } catch (InterruptedException error) {
        return null;
      }
    }
    return null;
  }

  private static boolean isAnswer(Record<?> record) {
    if (record.getValueType() != ValueType.USER_TASK) {
      return false;
    }
    return record.getRecordType() == RecordType.COMMAND_REJECTION
        || (record.getRecordType() == RecordType.EVENT
            && (DONE.contains(record.getIntent()) || DENIED.containsKey(record.getIntent())));
  }

  private static void answer(HttpExchange exchange, String path, UserTaskIntent command, Record<?> record)
      throws IOException {
    if (record == null) {
      problem(exchange, path, 504, "DEADLINE_EXCEEDED", "the listeners of the task did not answer");
    } else if (DENIED.containsKey(record.getIntent())) {
      var reason = JSON.readTree(record.toJson()).path("value").path("deniedReason").asText();
      var words = "%s of the User Task with key '%d' was denied by Task Listener. Reason to deny: '%s'";
      var denied = words.formatted(DENIED.get(record.getIntent()), record.getKey(), reason);
      rejected(exchange, path, command, RejectionType.INVALID_STATE, denied);
    } else if (record.getRecordType() == RecordType.COMMAND_REJECTION) {
      rejected(exchange, path, command, record.getRejectionType(), record.getRejectionReason());
    } else {
      exchange.sendResponseHeaders(204, -1);
    }
  }

  private static void rejected(
      HttpExchange exchange, String path, UserTaskIntent command, RejectionType type, String reason)
      throws IOException {
    int status = type == RejectionType.NOT_FOUND ? 404 : type == RejectionType.INVALID_ARGUMENT ? 400 : 409;
    var detail = "Command '%s' rejected with code '%s': %s".formatted(command, type, reason);
    problem(exchange, path, status, type.name(), detail);
  }

  private static void problem(HttpExchange exchange, String path, int status, String title, String detail)
      throws IOException {
    var problem = JSON.createObjectNode().put("type", "about:blank").put("title", title);
    problem.put("status", status).put("detail", detail).put("instance", path);
    var bytes = JSON.writeValueAsString(problem).getBytes(StandardCharsets.UTF_8);
    exchange.getResponseHeaders().set("Content-Type", "application/problem+json");
    exchange.sendResponseHeaders(status, bytes.length);
    exchange.getResponseBody().write(bytes);
  }
}
