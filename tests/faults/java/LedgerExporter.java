import io.camunda.zeebe.exporter.api.Exporter;
import io.camunda.zeebe.exporter.api.context.Context;
import io.camunda.zeebe.exporter.api.context.Controller;
import io.camunda.zeebe.protocol.record.Record;
import io.camunda.zeebe.protocol.record.RecordType;
import io.camunda.zeebe.protocol.record.ValueType;
import io.camunda.zeebe.protocol.record.value.BpmnElementType;
import io.camunda.zeebe.protocol.record.value.ProcessInstanceRecordValue;
import java.io.FileWriter;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.io.Writer;

/** Writes down which process instances began and ended: the broker itself tells nobody. A record may come twice. */
public final class LedgerExporter implements Exporter {
  private String file;
  private Writer ledger;
  private Controller controller;

  @Override
  public void configure(final Context context) {
    file = (String) context.getConfiguration().getArguments().get("file");
    context.setFilter(
        new Context.RecordFilter() {
          @Override
          public boolean acceptType(final RecordType type) {
            return type == RecordType.EVENT;
          }

          @Override
          public boolean acceptValue(final ValueType type) {
            return type == ValueType.PROCESS_INSTANCE;
          }
        });
  }

  @Override
  public void open(final Controller controller) {
    this.controller = controller;
    try {
      ledger = new FileWriter(file, true);
    } catch (final IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  @Override
  public void export(final Record<?> record) {
    if (record.getValue() instanceof ProcessInstanceRecordValue value
        && value.getBpmnElementType() == BpmnElementType.PROCESS) {
      try {
        ledger.write(record.getIntent() + " " + record.getKey() + " " + value.getBpmnProcessId() + "\n");
        ledger.flush();
      } catch (final IOException error) {
        throw new UncheckedIOException(error);
      }
    }
    controller.updateLastExportedRecordPosition(record.getPosition());
  }

  @Override
  public void close() {
    try {
      if (ledger != null) {
        ledger.close();
      }
    } catch (final IOException error) {
      throw new UncheckedIOException(error);
    }
  }
}
