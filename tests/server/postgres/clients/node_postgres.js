// node-postgres: run by test_drivers; prints what each step showed.
const { Client, Pool } = require('pg');
const address = JSON.parse(process.argv[2]);
const question = process.argv[3].replace('%s', '$1');

async function main() {
  const keywords = { ...address, database: address.dbname };
  const client = new Client({ ...keywords, options: '-c sfumato.epsilon=0.05' });
  const notices = [];
  client.on('notice', (notice) => notices.push(notice.message));
  await client.connect();
  const bound = [77, new Date('2024-02-01')];
  const text = `${question} AND day >= $2 GROUP BY region`;
  const rows = (await client.query(text, bound)).rows;
  const named = (await client.query({ name: 'tile', text, values: bound })).rows;
  const again = (await client.query({ name: 'tile', text, values: bound, rowMode: 'array' })).rows;
  const commands = (await client.query('BEGIN; SELECT 1 AS a; COMMIT')).map((result) => result.command);
  const tables = (await client.query("SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'")).rows;
  const refused = await client.query('SELECT * FROM visits').catch((error) => error.code);
  await client.end();
  const pool = new Pool({ ...keywords, max: 3 });
  const replies = await Promise.all([1, 2, 3, 4].map((number) => pool.query('SELECT $1::int AS n', [number])));
  await pool.end();
  console.log(JSON.stringify({
    regions: rows.map((row) => row.region),
    same: JSON.stringify(rows) === JSON.stringify(named) && again.every((row, index) => row[1] === rows[index].n),
    receipt: notices.some((notice) => notice.includes('this answer')),
    commands,
    tables: tables.map((row) => row.table_name),
    refused,
    pool: replies.map((reply) => reply.rows[0].n),
  }));
}

main();
