import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import org.camunda.feel.api.EvaluationResult;
import org.camunda.feel.api.FeelEngineApi;
import org.camunda.feel.api.FeelEngineBuilder;
import org.camunda.feel.api.ParseResult;
import org.camunda.feel.syntaxtree.ParsedExpression;

/**
 * The broker's own FEEL engine behind one line of JSON in and one line of JSON out.
 *
 * <p>In: {"expression": text, "contexts": [{variable: value, ...}, ...]}.
 * Out: {"ok": true, "ast": text, "variables": [name, ...], "values": [value, ...]} with one value a context,
 * or {"ok": false, "error": text}. A value that JSON has no word for comes back as {"other": text}.
 */
public final class FeelOracle {

  private static final FeelEngineApi ENGINE = FeelEngineBuilder.forJava().build();

  public static void main(String[] arguments) throws IOException {
    var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    var output = new PrintStream(System.out, false, StandardCharsets.UTF_8);
    String line;
    while ((line = input.readLine()) != null) {
      var answer = new StringBuilder();
      Json.write(answer(line), answer);
      output.println(answer);
      // One flush a batch would stall a caller that waits for each answer.
      if (!input.ready()) {
        output.flush();
      }
    }
    output.flush();
  }

  private static Map<String, Object> answer(String line) {
    try {
      var request = (Map<?, ?>) new Json(line).read();
      return judge((String) request.get("expression"), (List<?>) request.get("contexts"));
    } catch (StackOverflowError overflow) {
      return Map.of("ok", false, "error", "StackOverflowError");
    }
  }

  @SuppressWarnings("unchecked")
  private static Map<String, Object> judge(String expression, List<?> contexts) {
    ParseResult parsed = ENGINE.parseExpression(expression);
    if (parsed.isFailure()) {
      return Map.of("ok", false, "error", parsed.failure().message());
    }
    ParsedExpression tree = parsed.parsedExpression();
    var variables = new TreeSet<String>();
    collect(tree.expression(), variables);
    var values = new ArrayList<Object>();
    for (Object context : contexts) {
      EvaluationResult result = ENGINE.evaluate(tree, (Map<String, Object>) context);
      values.add(result.isSuccess() ? result.result() : Map.of("failure", result.failure().message()));
    }
    var answer = new LinkedHashMap<String, Object>();
    answer.put("ok", true);
    answer.put("ast", tree.expression().toString());
    answer.put("variables", new ArrayList<>(variables));
    answer.put("values", values);
    return answer;
  }

  /** The first name of every reference in the tree: older engines do not list variables themselves. */
  private static void collect(Object node, TreeSet<String> names) {
    if (node instanceof org.camunda.feel.syntaxtree.Ref reference) {
      names.add(reference.names().head());
    } else if (node instanceof scala.collection.Iterable<?> many) {
      var items = many.iterator();
      while (items.hasNext()) {
        collect(items.next(), names);
      }
    } else if (node instanceof scala.Product product) {
      var parts = product.productIterator();
      while (parts.hasNext()) {
        collect(parts.next(), names);
      }
    }
  }

  /** As much JSON as the two sides exchange. */
  private static final class Json {

    private final String text;
    private int at;

    Json(String text) {
      this.text = text;
    }

    Object read() {
      blanks();
      return switch (text.charAt(at)) {
        case '{' -> object();
        case '[' -> array();
        case '"' -> string();
        default -> word();
      };
    }

    private Map<String, Object> object() {
      var members = new LinkedHashMap<String, Object>();
      at++;
      while (!closes('}')) {
        var key = (String) read();
        blanks();
        at++;
        members.put(key, read());
      }
      return members;
    }

    private List<Object> array() {
      var items = new ArrayList<Object>();
      at++;
      while (!closes(']')) {
        items.add(read());
      }
      return items;
    }

    private boolean closes(char bracket) {
      blanks();
      if (text.charAt(at) == ',') {
        at++;
        blanks();
      }
      if (text.charAt(at) != bracket) {
        return false;
      }
      at++;
      return true;
    }

    private String string() {
      var characters = new StringBuilder();
      at++;
      for (char next = text.charAt(at++); next != '"'; next = text.charAt(at++)) {
        characters.append(next == '\\' ? escaped() : next);
      }
      return characters.toString();
    }

    private char escaped() {
      char next = text.charAt(at++);
      switch (next) {
        case 'n':
          return '\n';
        case 't':
          return '\t';
        case 'r':
          return '\r';
        case 'b':
          return '\b';
        case 'f':
          return '\f';
        case 'u':
          at += 4;
          return (char) Integer.parseInt(text.substring(at - 4, at), 16);
        default:
          return next;
      }
    }

    private Object word() {
      int start = at;
      while (at < text.length() && ",]} ".indexOf(text.charAt(at)) < 0) {
        at++;
      }
      String word = text.substring(start, at);
      return switch (word) {
        case "true" -> true;
        case "false" -> false;
        case "null" -> null;
        default -> word.matches("-?\\d{1,18}") ? (Object) Long.valueOf(word) : new BigDecimal(word);
      };
    }

    private void blanks() {
      while (text.charAt(at) == ' ') {
        at++;
      }
    }

    static void write(Object value, StringBuilder out) {
      if (value == null || value instanceof Boolean || value instanceof Number) {
        out.append(value);
      } else if (value instanceof String string) {
        quote(string, out);
      } else if (value instanceof Map<?, ?> members) {
        String before = "{";
        for (Iterator<? extends Map.Entry<?, ?>> each = members.entrySet().iterator(); each.hasNext(); ) {
          var member = each.next();
          out.append(before);
          quote(String.valueOf(member.getKey()), out);
          out.append(':');
          write(member.getValue(), out);
          before = ",";
        }
        out.append(members.isEmpty() ? "{}" : "}");
      } else if (value instanceof List<?> items) {
        String before = "[";
        for (Object item : items) {
          out.append(before);
          write(item, out);
          before = ",";
        }
        out.append(items.isEmpty() ? "[]" : "]");
      } else {
        write(Map.of("other", value.toString()), out);
      }
    }

    private static void quote(String string, StringBuilder out) {
      out.append('"');
      for (char next : string.toCharArray()) {
        if (next == '"' || next == '\\') {
          out.append('\\').append(next);
        } else if (next < ' ' || next > '~') {
          out.append(String.format("\\u%04x", (int) next));
        } else {
          out.append(next);
        }
      }
      out.append('"');
    }
  }
}
