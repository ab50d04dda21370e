#if DEBUG || MEGATON_FUZZ
    import Foundation

    @testable import MegatonHTTP
    @testable import MegatonPipeline

    /// Header fields of a response, of a 304 and of the request, separated by empty lines: for any fields, a lifetime
    /// is between zero and a year.
    public struct HTTPCacheFuzz: FuzzTarget {
        public let name = "http"
        public let words = [
            "cache-control: ", "age: ", "expires: ", "date: ", "etag: ", "last-modified: ", "vary: ", "content-type: ",
            "\n",
            "max-age=", "s-maxage=", "stale-while-revalidate=", "stale-if-error=", "no-cache", "no-store", "private",
            "public", "must-revalidate", "content-range: bytes 1-2/3", "accept: ", "\n\n", ", ", "\"", "*",
            "Wed, 21 Oct 2015 07:28:00 GMT", "W/\"1\"",
        ]
        public let seeds: [[UInt8]] = [
            "cache-control: max-age=60, stale-if-error=\"90\"\netag: \"1\"\nage: 20\ncontent-type: image/png\n",
            "expires: Wed, 21 Oct 2015 07:28:00 GMT\ndate: Wed, 21 Oct 2015 07:08:00 GMT\nvary: accept\n\nage: 1\n",
            "cache-control: no-cache\nlast-modified: Wed, 21 Oct 2015 07:28:00 GMT\n\ncache-control: s-maxage=7\n",
        ].map { Array($0.utf8) }

        /// A year in seconds.
        private static let year: Double = 365 * 24 * 3600

        public init() {}

        public func generate(using random: inout SeededGenerator) -> [UInt8] {
            let names = [
                "cache-control", "cache-control", "age", "expires", "date", "etag", "last-modified", "vary", "pragma",
                "\n",
            ]
            let parts = [
                "max-age", "s-maxage", "stale-while-revalidate", "stale-if-error", "=", "=", "\"", "\"", ",", ";", " ",
                "\t",
                "0", "1", "60", "31536001", "9223372036854775808", "1e999", "-1", "nan", "inf", "0x10", "٣", "no-cache",
                "no-store", "private=\"a, b\"", "public", "immutable", "must-revalidate", "*", "é",
                "Wed, 21 Oct 2015 07:28:00 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Thu, 01 Jan 1970 00:00:00 GMT",
                "Fri, 31 Dec 9999 23:59:59 GMT", "Mon, 00 Foo 99999 99:99:99 GMT",
            ]
            let lines = (0..<Int.random(in: 1...6, using: &random)).map { _ in
                let value = (0..<Int.random(in: 0...9, using: &random)).map { _ in random.pick(parts) }.joined()
                return "\(random.pick(names)): \(value)\n"
            }
            return Array(lines.joined().utf8)
        }

        public func check(_ input: [UInt8]) throws {
            let text = String(decoding: input, as: UTF8.self)
            let blocks = text.components(separatedBy: "\n\n").map(Self.headers)
            let request = blocks.count > 2 ? blocks[2] : [:]
            for value in blocks[0].values {
                _ = HTTPDate.parse(value)
                guard let range = ContentRange(value) else { continue }
                try promise(0 <= range.first && range.first <= range.last && range.last < range.total, "\(range)")
            }
            guard let metadata = CachedData.Metadata(headers: blocks[0], request: request) else { return }
            try check(metadata)
            try promise(metadata.matches(request: request), "no answer for the request that it was given to")
            let refreshed = metadata.refreshed(by: blocks.count > 1 ? blocks[1] : [:], request: request)
            if let refreshed { try check(refreshed) }
            for staleness in [0, 1, 59.5, Self.year * 1000] { try check(metadata.aged(by: staleness)) }
        }

        private static func headers(_ text: String) -> [String: String] {
            var headers: [String: String] = [:]
            for line in text.split(whereSeparator: \.isNewline) {
                let field = line.split(separator: ":", maxSplits: 1).map { $0.trimmingCharacters(in: .whitespaces) }
                if field.count == 2 { headers[field[0].lowercased()] = field[1] }
            }
            return headers
        }

        private func check(_ metadata: CachedData.Metadata) throws {
            let times = [metadata.lifetime, metadata.staleWhileRevalidate ?? 0, metadata.staleIfError ?? 0]
            // A NaN is in no range.
            try promise(times.allSatisfy { (0...Self.year).contains($0) }, "\(times) seconds")
            let entry = CachedData(data: Data([1]), metadata: metadata)
            let again = try CachedData(encoded: entry.encoded())
            try promise(again == entry, "\(entry) became \(String(describing: again))")
        }
    }
#endif
