// Reads manifests from standard input and decodes each strictly into its Kubernetes type: an unknown field, a wrong
// type, a repeated key or an unknown kind is an error. Prints one line per object.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
)

func main() {
	documents := utilyaml.NewYAMLReader(bufio.NewReader(os.Stdin))
	codecs := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict)
	failed := false
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		_, kind, err := codecs.UniversalDeserializer().Decode(document, nil, nil)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			failed = true
			continue
		}
		fmt.Println(kind.GroupVersion().String(), kind.Kind)
	}
	if failed {
		os.Exit(1)
	}
}
