import com.sun.net.httpserver.HttpServer;
import io.camunda.zeebe.process.test.api.ZeebeTestEngine;
import io.camunda.zeebe.process.test.engine.EngineFactory;
import io.grpc.ServerRegistry;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.time.Duration;

/**
 * Camunda's in-memory test engine as a process: gRPC on one loopback port, its clock on another.
 *
 * <p>Arguments: the gRPC port, the control port. {@code POST /clock} with a number of milliseconds as
 * its body moves time forward; any answer at all from {@code GET /ready} means the engine runs.
 */
public final class EngineProcess {

  public static void main(String[] arguments) throws Exception {
    int gatewayPort = Integer.parseInt(arguments[0]);
    int controlPort = Integer.parseInt(arguments[1]);
    // The engine asks gRPC for a server on all addresses; ours answers that question first.
    ServerRegistry.getDefaultRegistry().register(new LoopbackServers());
    ZeebeTestEngine engine = EngineFactory.create(gatewayPort);
    engine.start();
    serveControl(engine, controlPort);
  }

  private static void serveControl(ZeebeTestEngine engine, int port) throws IOException {
    var address = new InetSocketAddress(InetAddress.getLoopbackAddress(), port);
    var server = HttpServer.create(address, 0);
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
