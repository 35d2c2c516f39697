import io.camunda.zeebe.gateway.protocol.GatewayGrpc;
import io.camunda.zeebe.gateway.protocol.GatewayOuterClass.ActivateJobsRequest;
import io.camunda.zeebe.gateway.protocol.GatewayOuterClass.ActivateJobsResponse;
import io.grpc.stub.ServerCallStreamObserver;
import io.grpc.stub.StreamObserver;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;

/** ActivateJobs that waits for work: the test gateway alone answers "none" at once. */
final class LongPoll {
  private static final long DEFAULT_WAIT_MILLIS = 10_000;
  private static final long PAUSE_MILLIS = 25;
  private static final ScheduledExecutorService LATER =
      Executors.newSingleThreadScheduledExecutor(Thread.ofPlatform().daemon().factory());

  private final GatewayGrpc.AsyncService gateway;

  LongPoll(GatewayGrpc.AsyncService gateway) {
    this.gateway = gateway;
  }

  void activate(ActivateJobsRequest request, StreamObserver<ActivateJobsResponse> caller) {
    long asked = request.getRequestTimeout();
    long wait = asked == 0 ? DEFAULT_WAIT_MILLIS : Math.max(asked, 0); // negative: do not wait at all
    ask(request, caller, System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(wait));
  }

  private void ask(ActivateJobsRequest request, StreamObserver<ActivateJobsResponse> caller, long deadline) {
    if (caller instanceof ServerCallStreamObserver<?> call && call.isCancelled()) {
      return; // jobs taken for someone who left would be stuck until they time out
    }
    gateway.activateJobs(
        request,
        new StreamObserver<>() {
          private boolean found;

          @Override
          public void onNext(ActivateJobsResponse answer) {
            if (answer.getJobsCount() > 0) {
              found = true;
              caller.onNext(answer);
            }
          }

          @Override
          public void onError(Throwable error) {
            caller.onError(error);
          }

          @Override
          public void onCompleted() {
            if (found || System.nanoTime() >= deadline) {
              caller.onCompleted();
            } else {
              LATER.schedule(() -> ask(request, caller, deadline), PAUSE_MILLIS, TimeUnit.MILLISECONDS);
            }
          }
        });
  }
}
