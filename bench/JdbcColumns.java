// Prints the median of how long pgjdbc's getColumns of one table takes, in seconds, after as many calls to warm up.

import java.sql.*;
import java.util.*;

public class JdbcColumns {
    public static void main(String[] arguments) throws Exception {
        try (Connection connection = DriverManager.getConnection(arguments[0], arguments[1], arguments[2])) {
            DatabaseMetaData data = connection.getMetaData();
            int rounds = Integer.parseInt(arguments[4]);
            double[] seconds = new double[rounds];
            for (int call = -rounds; call < rounds; call++) {
                long start = System.nanoTime();
                int columns = 0;
                try (ResultSet result = data.getColumns(null, "public", arguments[3], "%")) {
                    while (result.next()) columns++;
                }
                if (columns == 0) throw new IllegalStateException("no columns of " + arguments[3]);
                if (call >= 0) seconds[call] = (System.nanoTime() - start) / 1e9;
            }
            Arrays.sort(seconds);
            System.out.println(seconds[rounds / 2]);
        }
    }
}
