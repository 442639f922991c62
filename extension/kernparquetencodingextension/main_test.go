package kernparquetencodingextension

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain lets a test start this binary anew as a process to be killed.
func TestMain(m *testing.M) {
	if dir := os.Getenv(childVariable); dir != "" {
		writeUntilKilled(dir)
		return
	}
	goleak.VerifyTestMain(m)
}
