import io.camunda.zeebe.gateway.protocol.GatewayGrpc;
import io.camunda.zeebe.gateway.protocol.GatewayOuterClass.ActivatedJob;
import io.camunda.zeebe.gateway.protocol.GatewayOuterClass.CompleteJobRequest;
import io.camunda.zeebe.gateway.protocol.GatewayOuterClass.CompleteJobResponse;
import io.camunda.zeebe.gateway.protocol.GatewayOuterClass.StreamActivatedJobsRequest;
import io.camunda.zeebe.process.test.engine.EngineLog;
import io.camunda.zeebe.protocol.impl.record.value.job.JobRecord;
import io.camunda.zeebe.protocol.impl.record.value.job.JobResult;
import io.camunda.zeebe.protocol.record.ValueType;
import io.camunda.zeebe.protocol.record.intent.JobIntent;
import io.camunda.zeebe.protocol.record.value.JobResultType;
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

/** gRPC servers that listen on loopback only and give the test gateway three manners of a real one. */
final class LoopbackServers extends ServerProvider {
  private volatile EngineLog log;

  /** The log behind the gateway that was served last. */
  EngineLog log() {
    return log;
  }

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

  private final class Builder extends ForwardingServerBuilder<Builder> {
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
      log = EngineLog.of(service);
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
          case "CompleteJob" ->
              improved.addMethod(
                  GatewayGrpc.getCompleteJobMethod(),
                  ServerCalls.asyncUnaryCall(
                      (CompleteJobRequest request, StreamObserver<CompleteJobResponse> caller) -> {
                        if (request.getResult().getDenied()) {
                          deny(request, caller);
                        } else {
                          gateway.completeJob(request, caller);
                        }
                      }));
          default -> improved.addMethod(method);
        }
      }
      netty.addService(improved.build());
      return this;
    }

    /** The test gateway drops the result of a job; a listener's denial is written into the log as a real one does. */
    private void deny(CompleteJobRequest request, StreamObserver<CompleteJobResponse> caller) {
      var result = new JobResult().setDenied(true).setDeniedReason(request.getResult().getDeniedReason());
      var record = new JobRecord().setResult(result.setType(JobResultType.USER_TASK));
      log.write(request.getJobKey(), ValueType.JOB, JobIntent.COMPLETE, record, request, caller);
    }

    /** A real gateway reads "no tenant" as the default tenant; the test gateway would match no job. */
    private static StreamActivatedJobsRequest withTenant(StreamActivatedJobsRequest request) {
      return request.getTenantIdsCount() > 0
          ? request
          : request.toBuilder().addTenantIds("<default>").build();
    }
  }
}
