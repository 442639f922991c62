// Package classes tells people the classes of kernel names: the face of internal/classify for the command line.
package classes

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/kernhes/kernhes/receiver/kernhesreceiver/internal/classify"
)

// A Table classes kernel names.
type Table struct{ rules classify.Rules }

// Builtin is the table that ships with kernhes.
func Builtin() Table { return Table{classify.Builtin} }

// Over reads a user's table and lays it over t. An error names the line and the reason.
func (t Table) Over(text string) (Table, error) {
	rules, err := classify.Parse(text)
	if err != nil {
		return t, err
	}
	return Table{rules.Over(t.rules)}, nil
}

// Version is what metrics and files say of the table.
func (t Table) Version() string { return t.rules.Version }

// maxName is the longest name that is read, in bytes: 16 times what the wire carries. What follows in its line is not looked at.
const maxName = 1 << 16

// unquoted is a name out of a CSV field in quotes ("f(int, int)"); any other line is the name as it stands.
func unquoted(line string) string {
	rest, ok := strings.CutPrefix(line, `"`)
	if !ok {
		return line
	}
	var name strings.Builder
	for {
		part, after, closed := strings.Cut(rest, `"`)
		name.WriteString(part)
		if !closed || !strings.HasPrefix(after, `"`) { // what follows the field is of other columns
			return name.String()
		}
		name.WriteByte('"')
		rest = after[1:]
	}
}

// Print reads a name a line and writes its class a line: comm, fused, compute, memcpy or spin. A name may be a CSV field in quotes.
func (t Table) Print(in io.Reader, out io.Writer) error {
	r, w := bufio.NewReaderSize(in, maxName), bufio.NewWriter(out)
	for {
		line, err := r.ReadSlice('\n')
		if len(line) > 0 {
			class, fused := t.rules.Class(unquoted(strings.TrimRight(string(line), "\r\n")))
			if _, err := fmt.Fprintln(w, classify.Word(class, fused)); err != nil {
				return err
			}
		}
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = r.ReadSlice('\n')
		}
		if err == io.EOF {
			return w.Flush()
		}
		if err != nil {
			return errors.Join(err, w.Flush())
		}
	}
}
