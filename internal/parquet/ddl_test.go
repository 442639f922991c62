package parquet

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// An engine is one that reads the tables of partitions, and how it writes a table down.
type engine struct {
	name  string
	quote string          // around a column's name
	types map[Type]string // of columns
	table func(Table, []string) string
	head  string
}

var engines = []engine{
	{
		name: "trino", quote: `"`, types: map[Type]string{Int64: "bigint", Text: "varchar", Bool: "boolean"},
		head: `-- The archive in Trino, by its Hive connector. Write it with the exporter's setting layout: hive, and copy it to an object store.
-- Columns are found by name (hive.parquet.use-column-names, the default). run is a partition, so it is no column of the files here.
-- When new partitions have come: call hive.system.sync_partition_metadata('kernhes', 'k', 'ADD');
`,
		table: func(t Table, columns []string) string {
			return fmt.Sprintf("create table hive.kernhes.%s (\n  %s,\n  \"date\" date,\n  \"run\" varchar\n)\nwith (\n  format = 'PARQUET',\n"+
				"  external_location = 's3://BUCKET/archive/%s',\n  partitioned_by = array['date', 'run']\n);\n", t, strings.Join(columns, ",\n  "), t)
		},
	},
	{
		name: "spark", quote: "`", types: map[Type]string{Int64: "bigint", Text: "string", Bool: "boolean"},
		head: `-- The archive in Spark SQL. Write it with the exporter's setting layout: hive.
-- When new partitions have come: msck repair table kernhes.k;
`,
		table: func(t Table, columns []string) string {
			return fmt.Sprintf("create table kernhes.%s (\n  %s,\n  `date` date,\n  `run` string\n)\nusing parquet\npartitioned by (`date`, `run`)\n"+
				"location 's3a://BUCKET/archive/%s';\n", t, strings.Join(columns, ",\n  "), t)
		},
	},
	{
		name: "clickhouse", quote: "`", types: map[Type]string{Int64: "Int64", Text: "String", Bool: "Bool"},
		head: `-- The archive in ClickHouse. Any layout will do: the files have all columns. With layout: hive, _path has the date and the run.
`,
		table: func(t Table, columns []string) string {
			columns = append([]string{"`run` String"}, columns...)
			return fmt.Sprintf("create table kernhes.%s (\n  %s\n)\nengine = S3('https://ENDPOINT/BUCKET/archive/%s/**/*.parquet', 'Parquet');\n",
				t, strings.Join(columns, ",\n  "), t)
		},
	},
}

// TestTablesOfOtherEngines holds queries/ddl to the columns.
func TestTablesOfOtherEngines(t *testing.T) {
	for _, e := range engines {
		text := e.head
		for _, table := range Tables {
			var columns []string
			for _, c := range Columns(table) {
				if c.Name == "run" {
					continue
				}
				kind := e.types[c.Type]
				require.NotEmpty(t, kind, c.Type)
				if e.name == "clickhouse" && c.Null != "" {
					kind = "Nullable(" + kind + ")"
				}
				columns = append(columns, e.quote+c.Name+e.quote+" "+kind)
			}
			text += "\n" + e.table(table, columns)
		}
		path := filepath.Join("../../queries/ddl", e.name+".sql")
		if *update {
			require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
			continue
		}
		written, err := os.ReadFile(path)
		require.NoError(t, err)
		require.True(t, text == string(written), "%s is not what the columns say: go test -update", path)
	}
}
