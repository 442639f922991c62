package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// A fault is one change of one file.
type fault struct {
	file     string
	line     int
	from, to int // bytes of text that with replaces
	text     []byte
	with     string
}

func (f fault) String() string {
	was := strings.Join(strings.Fields(string(f.text[f.from:f.to])), " ")
	return fmt.Sprintf("%s:%d: %.60q becomes %.60q", f.file, f.line, was, f.with)
}

// source is the file with the fault.
func (f *fault) source() []byte {
	return []byte(string(f.text[:f.from]) + f.with + string(f.text[f.to:]))
}

// faultsBelow are those of the Go files of a folder, without tests and generated files.
func faultsBelow(folder string) (all []fault, err error) {
	err = filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, text, parser.ParseComments)
		if err != nil || ast.IsGenerated(file) {
			return err
		}
		all = append(all, faultsOf(path, set, file, text)...)
		return nil
	})
	return all, err
}

// operators are what a fault makes of an operator.
var operators = map[token.Token]string{
	token.LSS: "<=", token.LEQ: "<", token.GTR: ">=", token.GEQ: ">", token.EQL: "!=", token.NEQ: "==",
	token.LAND: "||", token.LOR: "&&", token.ADD: "-", token.SUB: "+", token.MUL: "/", token.QUO: "*",
	token.REM: "*", token.SHL: ">>", token.SHR: "<<", token.AND: "|", token.OR: "&",
	token.ADD_ASSIGN: "-=", token.SUB_ASSIGN: "+=", token.INC: "--", token.DEC: "++",
	token.BREAK: "continue", token.CONTINUE: "break",
}

// names are what a fault makes of a name.
var names = map[string]string{"min": "max", "max": "min", "true": "false", "false": "true"}

// faultsOf are those of a file. Only what lies in a function can be faulty: tests of a table's rows are another matter.
func faultsOf(path string, set *token.FileSet, file *ast.File, text []byte) (all []fault) {
	add := func(from, to token.Pos, with string) {
		f := set.File(from)
		all = append(all, fault{path, f.Line(from), f.Offset(from), f.Offset(to), text, with})
	}
	operator := func(at token.Pos, is token.Token) {
		if with, ok := operators[is]; ok {
			add(at, at+token.Pos(len(is.String())), with)
		}
	}
	for _, d := range file.Decls {
		function, ok := d.(*ast.FuncDecl)
		if !ok || function.Body == nil {
			continue
		}
		ast.Inspect(function.Body, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BinaryExpr:
				operator(n.OpPos, n.Op)
			case *ast.IncDecStmt:
				operator(n.TokPos, n.Tok)
			case *ast.BranchStmt:
				if n.Label == nil {
					operator(n.TokPos, n.Tok)
				}
			case *ast.AssignStmt:
				operator(n.TokPos, n.Tok)
				if n.Tok != token.DEFINE { // the statement is forgotten; what it reads is still used
					add(n.Pos(), n.End(), "if false { "+string(text[set.File(n.Pos()).Offset(n.Pos()):set.File(n.Pos()).Offset(n.End())])+" }")
				}
			case *ast.ExprStmt:
				add(n.Pos(), n.End(), "if false { "+string(text[set.File(n.Pos()).Offset(n.Pos()):set.File(n.Pos()).Offset(n.End())])+" }")
			case *ast.UnaryExpr:
				if n.Op == token.NOT {
					add(n.OpPos, n.OpPos+1, "")
				}
			case *ast.BasicLit:
				if n.Kind == token.INT {
					add(n.Pos(), n.End(), "("+n.Value+" + 1)")
				}
			case *ast.Ident:
				if with, ok := names[n.Name]; ok {
					add(n.Pos(), n.End(), with)
				}
			}
			return true
		})
	}
	return all
}
