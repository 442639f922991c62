package main

import (
	"bytes"
	"os"
	"testing"
)

func TestGeneratedIsCurrent(t *testing.T) {
	in, err := os.ReadFile("../../../metadata.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want, err := generate(in)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../generated_metrics.go")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("generated_metrics.go is not what metadata.yaml says: run go generate ./receiver/...")
	}
}

func TestGenerateRefuses(t *testing.T) {
	for name, in := range map[string]string{
		"undeclared attribute": "metrics: {a: {unit: s, gauge: {value_type: int}, attributes: [rank]}}",
		"no data type":         "metrics: {a: {unit: s}}",
		"no YAML":              "metrics: [",
	} {
		if _, err := generate([]byte(in)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
