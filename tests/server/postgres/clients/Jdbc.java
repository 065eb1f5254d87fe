// pgjdbc: run by test_drivers from its source; prints one line a step, with what it showed.

import java.sql.*;
import java.util.*;

public class Jdbc {
    interface Step { Object run() throws Exception; }

    static Connection connection;

    static void show(String name, Step step) {
        String shown;
        try {
            shown = String.valueOf(step.run());
        } catch (SQLException error) {
            shown = error.getSQLState() + " " + error.getMessage().lines().findFirst().orElse("");
        } catch (Exception error) {
            shown = error.toString();
        }
        System.out.println(name + "\t" + shown.replace("\n", " ").replace("\t", " "));
    }

    /** The cells of some columns, by number; of no columns, how many rows there are. */
    static String rows(ResultSet result, int... columns) throws SQLException {
        StringJoiner rows = new StringJoiner(" | ");
        int count = 0;
        while (result.next()) {
            StringJoiner cells = new StringJoiner(",");
            for (int column : columns) cells.add(String.valueOf(result.getString(column)));
            rows.add(cells.toString());
            count++;
        }
        return columns.length == 0 ? String.valueOf(count) : rows.toString();
    }

    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        properties.put("user", arguments[1]);
        properties.put("password", arguments[2]);
        if (!arguments[3].isEmpty()) properties.put("options", arguments[3]);
        connection = DriverManager.getConnection(arguments[0], properties);
        DatabaseMetaData data = connection.getMetaData();
        show("tables", () -> rows(data.getTables(null, "public", "%", new String[] {"TABLE"}), 2, 3, 4, 5));
        show("columns", () -> rows(data.getColumns(null, "public", "visits", "%"), 4, 6, 12, 17, 18));
        show("primary keys", () -> rows(data.getPrimaryKeys(null, "public", "visits"), 4));
        show("foreign keys", () -> rows(data.getImportedKeys(null, "public", "visits"), 4)
                + rows(data.getExportedKeys(null, "public", "visits"), 4));
        show("indexes", () -> rows(data.getIndexInfo(null, "public", "visits", false, false), 6));
        show("schemas", () -> rows(data.getSchemas(null, "%u%"), 1));
        show("catalogs", () -> rows(data.getCatalogs(), 1));
        show("privileges", () -> rows(data.getTablePrivileges(null, "public", "visits"), 5, 6));
        show("table types", () -> rows(data.getTableTypes(), 1));
        show("best row", () -> rows(data.getBestRowIdentifier(null, "public", "visits", 0, true), 2));
        show("schema", () -> connection.getSchema() + " " + connection.getCatalog() + " " + connection.isValid(5));
        if (!arguments[3].isEmpty()) ask(data, arguments[4]);
        connection.close();
    }

    static void ask(DatabaseMetaData data, String question) {
        String grouped = question.replace("%s", "?") + " AND day >= ? GROUP BY region LIMIT ?";
        show("types", () -> Integer.parseInt(rows(data.getTypeInfo())) > 100);
        show("function columns", () -> Integer.parseInt(rows(data.getFunctionColumns(null, null, "%", "%"))) > 100);
        show("prepared", () -> {
            Set<String> shown = new TreeSet<>();
            try (PreparedStatement statement = connection.prepareStatement(grouped)) {
                for (int round = 0; round < 7; round++) {  // after five, the driver names it and asks for binary
                    statement.setInt(1, 77);
                    statement.setDate(2, java.sql.Date.valueOf("2024-02-01"));
                    statement.setInt(3, 10);
                    shown.add(rows(statement.executeQuery(), 1, 2));
                }
            }
            return shown.size() + " " + shown.iterator().next().replaceAll(",-?\\d+", "");
        });
        show("timestamp", () -> {
            PreparedStatement statement = connection.prepareStatement("SELECT COUNT(*) AS n FROM visits WHERE day < ?");
            statement.setTimestamp(1, Timestamp.valueOf("2024-06-01 00:00:00"));
            return rows(statement.executeQuery());
        });
        show("fetch size", () -> {
            connection.setAutoCommit(false);
            Statement statement = connection.createStatement();
            statement.setFetchSize(1);
            String shown = rows(statement.executeQuery(question.replace("%s", "77") + " GROUP BY region"), 1);
            connection.rollback();
            connection.setAutoCommit(true);
            return shown;
        });
        show("read-only", () -> {
            connection.setReadOnly(true);
            connection.setAutoCommit(false);
            String shown = rows(connection.createStatement().executeQuery("SELECT 1"), 1);
            connection.commit();
            connection.setAutoCommit(true);
            return shown;
        });
        show("rows are refused", () -> rows(connection.createStatement().executeQuery("SELECT * FROM visits")));
        show("writes are refused", () -> connection.createStatement().executeUpdate("DELETE FROM visits"));
    }
}
