import com.sun.net.httpserver.HttpServer;
import io.camunda.zeebe.process.test.api.ZeebeTestEngine;
import io.camunda.zeebe.process.test.engine.EngineFactory;
import io.grpc.ServerRegistry;
import java.io.BufferedOutputStream;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.concurrent.Executors;

/**
 * Camunda's in-memory test engine as a process: gRPC on one loopback port, its clock on another.
 *
 * <p>Arguments: the gRPC port, the control port. {@code POST /clock} with a number of milliseconds as
 * its body moves time forward; any answer at all from {@code GET /ready} means the engine runs. {@code /records} gives
 * the engine's log, one line of JSON a record, and {@link UserTaskRest} the calls of user tasks.
 */
public final class EngineProcess {

  public static void main(String[] arguments) throws Exception {
    int gatewayPort = Integer.parseInt(arguments[0]);
    int controlPort = Integer.parseInt(arguments[1]);
    // The engine asks gRPC for a server on all addresses; ours answers that question first.
    var servers = new LoopbackServers();
    ServerRegistry.getDefaultRegistry().register(servers);
    ZeebeTestEngine engine = EngineFactory.create(gatewayPort);
    engine.start();
    serveControl(engine, servers, controlPort);
  }

  private static void serveControl(ZeebeTestEngine engine, LoopbackServers servers, int port) throws IOException {
    var address = new InetSocketAddress(InetAddress.getLoopbackAddress(), port);
    var server = HttpServer.create(address, 0);
    // A completion waits for its listeners: another call must not wait behind it.
    server.setExecutor(Executors.newCachedThreadPool(Thread.ofPlatform().daemon().factory()));
    server.createContext(UserTaskRest.PATH, new UserTaskRest(engine, servers::log));
    server.createContext(
        "/records",
        exchange -> {
          try (exchange) {
            // Record by record: the whole log of a long run has no room in the memory of this process.
            exchange.sendResponseHeaders(200, 0);
            try (var out = new BufferedOutputStream(exchange.getResponseBody())) {
              for (var record : engine.getRecordStreamSource().getRecords()) {
                out.write(record.toJson().getBytes(StandardCharsets.UTF_8));
                out.write('\n');
              }
            }
          }
        });
    server.createContext(
        "/clock",
        exchange -> {
          try (exchange) {
            var millis = new String(exchange.getRequestBody().readAllBytes());
            engine.increaseTime(Duration.ofMillis(Long.parseLong(millis.strip())));
            exchange.sendResponseHeaders(204, -1);
          }
        });
    server.createContext(
        "/ready",
        exchange -> {
          try (exchange) {
            exchange.sendResponseHeaders(204, -1);
          }
        });
    server.start();
  }
}
