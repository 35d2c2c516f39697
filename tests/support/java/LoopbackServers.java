import io.camunda.zeebe.gateway.protocol.GatewayGrpc;
import io.camunda.zeebe.gateway.protocol.GatewayOuterClass.ActivatedJob;
import io.camunda.zeebe.gateway.protocol.GatewayOuterClass.StreamActivatedJobsRequest;
import io.grpc.BindableService;
import io.grpc.ForwardingServerBuilder;
import io.grpc.ServerBuilder;
import io.grpc.ServerProvider;
import io.grpc.ServerServiceDefinition;
import io.grpc.netty.NettyServerBuilder;
import io.grpc.stub.ServerCalls;
import io.grpc.stub.StreamObserver;
import java.net.InetAddress;
import java.net.InetSocketAddress;

/** gRPC servers that listen on loopback only and give the test gateway two manners of a real one. */
final class LoopbackServers extends ServerProvider {

  @Override
  protected boolean isAvailable() {
    return true;
  }

  @Override
  protected int priority() {
    return 10; // the highest there is
  }

  @Override
  protected ServerBuilder<?> builderForPort(int port) {
    return new Builder(port);
  }

  private static final class Builder extends ForwardingServerBuilder<Builder> {
    private final NettyServerBuilder netty;

    Builder(int port) {
      netty = NettyServerBuilder.forAddress(new InetSocketAddress(InetAddress.getLoopbackAddress(), port));
    }

    @Override
    protected ServerBuilder<?> delegate() {
      return netty;
    }

    @Override
    public Builder addService(BindableService service) {
      var gateway = (GatewayGrpc.AsyncService) service;
      var original = service.bindService();
      var improved = ServerServiceDefinition.builder(original.getServiceDescriptor());
      for (var method : original.getMethods()) {
        switch (method.getMethodDescriptor().getBareMethodName()) {
          case "ActivateJobs" ->
              improved.addMethod(
                  GatewayGrpc.getActivateJobsMethod(),
                  ServerCalls.asyncServerStreamingCall(new LongPoll(gateway)::activate));
          case "StreamActivatedJobs" ->
              improved.addMethod(
                  GatewayGrpc.getStreamActivatedJobsMethod(),
                  ServerCalls.asyncServerStreamingCall(
                      (StreamActivatedJobsRequest request, StreamObserver<ActivatedJob> jobs) ->
                          gateway.streamActivatedJobs(withTenant(request), jobs)));
          default -> improved.addMethod(method);
        }
      }
      netty.addService(improved.build());
      return this;
    }

    /** A real gateway reads "no tenant" as the default tenant; the test gateway would match no job. */
    private static StreamActivatedJobsRequest withTenant(StreamActivatedJobsRequest request) {
      return request.getTenantIdsCount() > 0
          ? request
          : request.toBuilder().addTenantIds("<default>").build();
    }
  }
}
