"""What is remembered: bisections, nights and the queue in a database, and documents in files.

- `vocabulary` has the words that all rooms share: verdicts, judgements, commits. `tables` has the rows.
- `database` opens a store, and migrates it by the steps in `versions`. `durable_files` writes files that survive a
  power cut, and reads documents by their version.
- `bisections`, `nights` and `queue` read and write the rows. Begin with `tables`.
"""
