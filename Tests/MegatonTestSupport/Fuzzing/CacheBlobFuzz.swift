#if DEBUG || MEGATON_FUZZ
    import Foundation
    import FoundationNetworking

    @testable import MegatonHTTP
    @testable import MegatonPipeline

    /// A blob from a cache that any process may have written to: it is an entry, or a miss.
    public struct CacheBlobFuzz: FuzzTarget {
        public let name = "blob"
        public let words = [
            "M1", "L1", "P1", "N1", "M2", "\"headers\":{", "\"status\":", "\0\0\0\0", "{\"lifetime\":", "\"etag\":\"",
            "\"width\":", "}", "1e999", "null",
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
            let response = URL(string: "http://h/").flatMap {
                HTTPURLResponse(url: $0, statusCode: 200, httpVersion: nil, headerFields: ["ETag": "1"])
            }
            let stored = try response.map { try StoredResponse($0).encoded(with: Data("body".utf8)) }
            let entries = try metadata.map { try CachedData(data: Data("data".utf8), metadata: $0).encoded() }
            seeds = (entries + [stored].compactMap { $0 }).map { Array($0) }
        }

        public func generate(using random: inout SeededGenerator) -> [UInt8] {
            let number = random.pick([
                "0", "-1", "0.1", "1e308", "1e999", "5e-324", "null", "\"1\"", "123456789012345678901",
            ])
            let json = Array("{\"lifetime\":\(number),\"status\":\(number),\"headers\":{}}".utf8)
            let length = json.count + random.pick([0, 0, 0, -1, 1, 255])
            let head =
                Array(random.pick(["M1", "L1", "P1"]).utf8) + [
                    UInt8(length & 255), UInt8(length >> 8), 0, random.pick([0, 0, 0, 255]),
                ]
            return head + json + random.bytes(Int.random(in: 0...9, using: &random))
        }

        public func check(_ input: [UInt8]) throws {
            try checkResponse(Data(input))
            if let part = ResumableData(encoded: Data(input)) {
                try promise(ResumableData(encoded: part.encoded()) != nil, "\(part) is not read back")
            }
            guard let entry = CachedData(encoded: Data(input)) else { return }
            try promise(input.count >= entry.data.count, "more data than there was")
            let again = try CachedData(encoded: entry.encoded())
            try promise(again == entry, "\(entry) became \(String(describing: again))")
            // A slice has another start index.
            let slice = (Data([9, 9]) + Data(input)).dropFirst(2)
            try promise(CachedData(encoded: slice) == entry, "a slice is read otherwise")
        }

        /// Checks the entries of `CachingDataLoader`.
        private func checkResponse(_ blob: Data) throws {
            guard let (head, body) = StoredResponse.decode(blob) else { return }
            let again = StoredResponse.decode(try head.encoded(with: body))
            try promise(again?.body == body, "the body of a response became another")
            if let url = URL(string: "http://h/") { _ = head.response(for: url) }
        }
    }
#endif
