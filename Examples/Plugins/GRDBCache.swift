public import Foundation
public import GRDB
public import MegatonPipeline

/// A cache in an SQLite database, with GRDB: one table with the entries that were written last.
public struct GRDBCache: DataCaching {
    public let database: any DatabaseWriter
    /// Maximum number of entries.
    public let limit: Int

    /// - Parameter limit: maximum number of entries; the oldest are removed.
    public init(_ database: any DatabaseWriter, limit: Int = 100_000) throws {
        self.database = database
        self.limit = limit
        try database.write { database in
            // The key is a blob, as a text would end at its first NUL. A rewrite assigns a new `id`, the largest.
            try database.execute(
                sql: "CREATE TABLE IF NOT EXISTS entry (id INTEGER PRIMARY KEY, key BLOB UNIQUE, data BLOB)"
            )
        }
    }

    public func cachedData(for key: String) async -> Data? { await cachedData(for: [key])[0] }

    public func cachedData(for keys: [String]) async -> [Data?] {
        let found = try? await database.read { database in
            let select = try database.cachedStatement(sql: "SELECT data FROM entry WHERE key = ?")
            return try keys.map { try Data.fetchOne(select, arguments: [Data($0.utf8)]) }
        }
        // An error of the cache is a miss.
        return found ?? keys.map { _ in nil }
    }

    public func storeData(_ data: Data, for key: String) async {
        try? await database.write { [limit] database in
            try database.execute(
                sql: "INSERT OR REPLACE INTO entry (key, data) VALUES (?, ?)",
                arguments: [Data(key.utf8), data]
            )
            try database.execute(
                sql: "DELETE FROM entry WHERE id <= ?",
                arguments: [database.lastInsertedRowID - Int64(limit)]
            )
        }
    }

    public func removeData(for key: String) async {
        try? await database.write { database in
            try database.execute(sql: "DELETE FROM entry WHERE key = ?", arguments: [Data(key.utf8)])
        }
    }

    public func removeAll() async {
        _ = try? await database.write { try $0.execute(sql: "DELETE FROM entry") }
    }
}
