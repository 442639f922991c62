//go:build packages

// Package packages_test installs the .deb on a machine of its own: this machine's root under an overlay, with systemd as
// process 1 in namespaces of its own. The unit runs there as it is shipped, with all its limits. Nothing is left behind.
//
// It needs root, cgroup v2 (mounted anywhere), systemd, and what `make build` and `make dist` build.
// KERNHES_PACKAGES_ROOT is another root than /, such as one that mmdebstrap made.
package packages_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// inside marks the process that has namespaces of its own.
const inside = "KERNHES_PACKAGES_INSIDE"

// built is the folder of the packages that the tests build.
var built string

// TestMain starts the tests anew in namespaces for mounts and the network, so that no port and no mount meets another's.
func TestMain(m *testing.M) {
	if os.Getenv(inside) != "" {
		for _, args := range [][]string{{"mount", "--make-rprivate", "/"}, {"ip", "link", "set", "lo", "up"}} {
			if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
				fmt.Fprintf(os.Stderr, "%v: %v: %s\n", args, err, out)
				os.Exit(1)
			}
		}
		var err error
		if built, err = os.MkdirTemp("", "kernhes-built-"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		status := m.Run()
		_ = os.RemoveAll(built)
		os.Exit(status)
	}
	if os.Getuid() != 0 {
		fmt.Fprintln(os.Stderr, "the tests of the packages need root")
		os.Exit(1)
	}
	again := exec.Command("/proc/self/exe", os.Args[1:]...)
	again.Env = append(os.Environ(), inside+"=1")
	again.Stdout, again.Stderr = os.Stdout, os.Stderr
	again.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	err := again.Run()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		os.Exit(exit.ExitCode())
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
