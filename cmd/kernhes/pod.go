package main

import (
	"cmp"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

const copyText = `Copies libkernhes.so and the Python package into FOLDER, for engines in other containers: an init container of the engine's pod
does that. The library is at FOLDER/libkernhes.so, the package at FOLDER/kernhes.whl. It looks for both as kernhes run does.`

// copyShim copies what an engine loads.
func copyShim(args []string, out io.Writer) error {
	f := flags("copy", "FOLDER", copyText)
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() != 1 {
		return fmt.Errorf("copy: the path of one folder is required: %w", errUsage)
	}
	library, err := findBeside("", "libkernhes.so", errNoLibrary)
	if err != nil {
		return fmt.Errorf("copy: %w", err)
	}
	wheel, err := findWheel("")
	if err != nil {
		return fmt.Errorf("copy: %w", err)
	}
	for from, name := range map[string]string{library: "libkernhes.so", wheel: "kernhes.whl"} {
		to := filepath.Join(f.Arg(0), name)
		if err := replace(from, to); err != nil {
			return fmt.Errorf("copy: %w", err)
		}
		fmt.Fprintln(out, to)
	}
	return nil
}

// replace copies a file so that who has the old one open keeps it whole.
func replace(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	temporary := to + ".new"
	if err := os.WriteFile(temporary, text, 0o644); err != nil {
		return err
	}
	return cmp.Or(os.Chmod(temporary, 0o644), os.Rename(temporary, to)) // whatever the umask
}

const folderText = `Makes a folder that belongs to a user and a group, and may already be there: an init container of the collector's pod makes those
on the node so. With -mode 2750 what the user makes in it belongs to the group, such as the socket that engines connect to.`

// makeFolder makes a folder of a user.
func makeFolder(args []string, _ io.Writer) error {
	f := flags("folder", "[FLAGS] FOLDER", folderText)
	user := f.Int("user", os.Getuid(), "number of the user")
	group := f.Int("group", os.Getgid(), "number of the group")
	mode := f.String("mode", "0750", "permission, octal")
	if err := f.Parse(args); err != nil {
		return err
	}
	bits, err := strconv.ParseUint(*mode, 8, 12)
	if err != nil || f.NArg() != 1 {
		return fmt.Errorf("folder: the path of one folder is required, and -mode must be octal: %w", errUsage)
	}
	path := f.Arg(0)
	if err := os.MkdirAll(path, 0o700); err != nil {
		return fmt.Errorf("folder: %w", err)
	}
	want := fs.FileMode(bits & 0o777)
	if bits&syscall.S_ISGID != 0 {
		want |= fs.ModeSetgid
	}
	if err := cmp.Or(os.Chown(path, *user, *group), os.Chmod(path, want)); err != nil {
		return fmt.Errorf("folder: %w", err)
	}
	return nil
}
