// Prints what kstatus says about Kubernetes objects: a JSON list of objects on stdin, a JSON list of
// {"status", "message"} on stdout, in the same order.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
)

type verdict struct {
	Status  string `json:"status"`
	Message string `json:"message"`
}

func verdicts() ([]verdict, error) {
	var raw []json.RawMessage
	if err := json.NewDecoder(os.Stdin).Decode(&raw); err != nil {
		return nil, err
	}
	found := make([]verdict, 0, len(raw))
	for index, text := range raw {
		// Numbers become int64 or float64 as in a client of the API server.
		var object unstructured.Unstructured
		if err := object.UnmarshalJSON(text); err != nil {
			return nil, fmt.Errorf("object %d: %w", index, err)
		}
		result, err := status.Compute(&object)
		if err != nil {
			return nil, fmt.Errorf("object %d: %w", index, err)
		}
		found = append(found, verdict{Status: result.Status.String(), Message: result.Message})
	}
	return found, nil
}

func main() {
	found, err := verdicts()
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(found)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
