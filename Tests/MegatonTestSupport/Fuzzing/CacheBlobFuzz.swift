#if DEBUG || MEGATON_FUZZ
    import Foundation

    @testable import MegatonPipeline

    /// A blob out of a cache that anybody may have written to: an entry, or a miss.
    public struct CacheBlobFuzz: FuzzTarget {
        public let name = "blob"
        public let words = [
            "M1", "M2", "\0\0\0\0", "{\"lifetime\":", "\"etag\":\"", "\"width\":", "}", "1e999", "null",
        ]
        public let seeds: [[UInt8]]

        public init() throws {
            let metadata = [
                CachedData.Metadata(lifetime: 0),
                CachedData.Metadata(
                    type: "image/png",
                    etag: "\"1\"",
                    lastModified: "Wed, 21 Oct 2015 07:28:00 GMT",
                    width: 3,
                    height: 4,
                    stored: 1.5e9,
                    lifetime: 60.5,
                    staleWhileRevalidate: 7,
                    staleIfError: 9
                ),
            ]
            seeds = try metadata.map { Array(try CachedData(data: Data("data".utf8), metadata: $0).encoded()) }
        }

        public func generate(using random: inout SeededGenerator) -> [UInt8] {
            let number = random.pick([
                "0", "-1", "0.1", "1e308", "1e999", "5e-324", "null", "\"1\"", "123456789012345678901",
            ])
            let json = Array("{\"lifetime\":\(number),\"stored\":\(number),\"width\":\(number)}".utf8)
            let length = json.count + random.pick([0, 0, 0, -1, 1, 255])
            let head = Array("M1".utf8) + [UInt8(length & 255), UInt8(length >> 8), 0, random.pick([0, 0, 0, 255])]
            return head + json + random.bytes(Int.random(in: 0...9, using: &random))
        }

        public func check(_ input: [UInt8]) throws {
            guard let entry = CachedData(encoded: Data(input)) else { return }
            try promise(input.count >= entry.data.count, "more data than there was")
            let again = try CachedData(encoded: entry.encoded())
            try promise(again == entry, "\(entry) became \(String(describing: again))")
            // A slice has another start index.
            let slice = (Data([9, 9]) + Data(input)).dropFirst(2)
            try promise(CachedData(encoded: slice) == entry, "a slice is read otherwise")
        }
    }
#endif
