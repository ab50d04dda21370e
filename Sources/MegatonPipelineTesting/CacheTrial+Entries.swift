import Foundation
import MegatonPipeline

extension CacheTrial {
    func miss() async throws(ConformanceFailure) {
        try await require(key("none"), holds: nil)
        let contains = await cache.containsData(for: key("none"))
        try require(!contains, "containsData returned true")
    }

    func readYourWrites() async throws(ConformanceFailure) {
        let everyByte = Data(0...255)
        for (name, data) in [("text", Data("a".utf8)), ("binary", everyByte), ("more", stamp("more", 7))] {
            await cache.storeData(data, for: key(name))
            try await require(key(name), holds: data)
            try await require(key(name), holds: data)
        }
        try await require(key("binary"), holds: everyByte)
    }

    func overwrite() async throws(ConformanceFailure) {
        for size in [10, 100_000, 1, 5000, 0, 20] {
            let data = Data(repeating: UInt8(truncatingIfNeeded: size), count: size)
            await cache.storeData(data, for: key("a"))
            try await require(key("a"), holds: data)
        }
    }

    func emptyData() async throws(ConformanceFailure) {
        await cache.storeData(Data(), for: key("empty"))
        try await require(key("empty"), holds: Data())
        let contains = await cache.containsData(for: key("empty"))
        try require(contains, "containsData returned false")
    }

    func largeData() async throws(ConformanceFailure) {
        let large = ConformanceOrigin.Resource.bytes(1 << 20).body
        await cache.storeData(large, for: key("large"))
        try await require(key("large"), holds: large)
    }

    func slices() async throws(ConformanceFailure) {
        let whole = Data(0...255)
        await cache.storeData(whole[100..<200], for: key("slice"))
        try await require(key("slice"), holds: Data(100..<200))
    }

    func contains() async throws(ConformanceFailure) {
        let before = await cache.containsData(for: key("a"))
        try require(!before, "containsData returned true before anything was stored")
        await cache.storeData(Data("a".utf8), for: key("a"))
        let after = await cache.containsData(for: key("a"))
        try require(after, "containsData returned false after storeData")
        let other = await cache.containsData(for: key("b"))
        try require(!other, "containsData returned true for another key")
    }

    func remove() async throws(ConformanceFailure) {
        await cache.removeData(for: key("a"))
        for name in ["a", "b"] { await cache.storeData(Data(name.utf8), for: key(name)) }
        await cache.removeData(for: key("a"))
        try await require(key("a"), holds: nil)
        let contains = await cache.containsData(for: key("a"))
        try require(!contains, "containsData still returns true")
        try await require(key("b"), holds: Data("b".utf8))
        await cache.removeData(for: key("a"))
        await cache.storeData(Data("again".utf8), for: key("a"))
        try await require(key("a"), holds: Data("again".utf8))
    }

    func removeAll() async throws(ConformanceFailure) {
        let keys = (0..<20).map { key("\($0)") }
        for key in keys { await cache.storeData(Data(key.utf8), for: key) }
        await cache.removeAll()
        for key in keys { try await require(key, holds: nil) }
        await cache.storeData(Data("again".utf8), for: keys[0])
        try await require(keys[0], holds: Data("again".utf8))
        try await require(keys[1], holds: nil)
    }

    func batch() async throws(ConformanceFailure) {
        let names = (0..<10).map { key("\($0)") }
        for name in names.enumerated().filter({ !$0.offset.isMultiple(of: 3) }) {
            await cache.storeData(stamp(name.element, name.offset), for: name.element)
        }
        // In another order, with one key repeated.
        let asked = Array(names.reversed()) + [names[1], key("none")]
        let found = await cache.cachedData(for: asked)
        try require(found.count == asked.count, "\(found.count) results for \(asked.count) keys")
        for (name, data) in zip(asked, found) {
            let offset = names.firstIndex(of: name) ?? 0
            let expected = offset.isMultiple(of: 3) ? nil : stamp(name, offset)
            try require(data == expected, "for \(name) \(Self.text(data)), not \(Self.text(expected))")
        }
        let none = await cache.cachedData(for: [])
        try require(none.isEmpty, "\(none.count) results for no keys")
    }

    func oddKeys() async throws(ConformanceFailure) {
        let odd =
            [
                "key", "Key", "KEY", " key", "key ", "key/", "/key", "../../key", "..", ".", "key.", "key\\", "key\0",
                "key\0a",
                "key\n", "key\r\n", "key\t", "key%", "key%2F", "key%00", "key*", "key?", "key[a]", "key:a", "key{a}",
                "key'",
                "key\"", "key'; DROP TABLE entries; --", "key_", "keyx", "ключ", "鍵", "🔑", "🔑🔑", "clé", "0", "00",
                "1e3", "nil",
                "null", "https://example.org/a.jpg?x=1&y=2#z", "-rf", "~", "$HOME", "`key`", "key|", "key<>",
            ].map { key($0) + " " } + [key("last"), key("last") + "\0", key("last") + ".", key("last") + " "]
        for key in odd { await cache.storeData(Data(key.utf8), for: key) }
        for key in odd { try await require(key, holds: Data(key.utf8)) }
    }

    func longKeys() async throws(ConformanceFailure) {
        let stem = key(String(repeating: "0123456789", count: 1000))
        for end in ["a", "b", ""] { await cache.storeData(Data("end \(end)".utf8), for: stem + end) }
        for end in ["a", "b", ""] { try await require(stem + end, holds: Data("end \(end)".utf8)) }
        try await require(stem + "c", holds: nil)
    }
}
