import Foundation
import MegatonPipeline
import MegatonTestSupport
import NIOCore
import Testing

@testable import MegatonCluster

/// The short way reads what the decoder reads, or nothing.
struct PlainJSONReaderTests {
    private static let job = #"""
        {"id":"a.1","kind":"process","source":"https:\/\/example.org/größe/\"a\\b\".jpg","attempts":7,
         "renditions":[{"name":"small","width":256,"height":171,"background":"#ff0000","format":"webp"},{"width":64}],
         "output":"file:///out/{path}/{stem}-{name}.{ext}","batch":"spring","priority":"bulk","credential":"partner"}
        """#

    private func decoded(_ json: String) -> Job? { try? JSONDecoder().decode(Job.self, from: Data(json.utf8)) }

    @Test func aJobIsReadAsTheDecoderReadsIt() throws {
        for json in [Self.job, #" { "source" : "a" } "#, #"{"source":"a","kind":"fetch"}"#] {
            let read = try #require(Job(plainJSON: Data(json.utf8)))
            #expect(read == decoded(json))
        }
    }

    @Test(arguments: [
        #"{"source":"a\u0062"}"#, #"{"source":"a","source":"b"}"#, #"{"source":"a","attempts":2.0}"#, "[]", "", "{",
        #"{"source":"a","attempts":1e1}"#, #"{"source":"a","attempts":01}"#, #"{"source":"a","batch":null}"#,
        #"{"source":"a"}x"#, #"{"source":"a",}"#, #"{"source":"a","unknown":1}"#, #"{"source":"a","kind":"other"}"#,
        #"{"source":"a","renditions":[{"widht":3}]}"#, #"{"source":"a","renditions":[{"width":3}"#, #"{"source":7}"#,
        #"{"source":"a","attempts":9999999999999999999}"#, "{\"source\":\"a\nb\"}", #"{"kind":"process"}"#,
    ])
    func theRestIsTheDecoders(_ json: String) {
        #expect(Job(plainJSON: Data(json.utf8)) == nil)
        #expect((try? Job(json: Data(json.utf8))) == decoded(json))
    }

    @Test func whatIsWrongIsSaidAsBefore() {
        for (json, message) in [
            (#"{"source":"a","unknown":1}"#, "unknown field \"unknown\""),
            (#"{"source":"a","renditions":[{"widht":3}]}"#, "unknown field \"widht\""),
            (#"{"source":"a","renditions":[{"width":3},{"width":0}]}"#, "renditions[1]"),
            (#"{"source":"a","attempts":0}"#, "attempts is 1 to 100"),
            (#"{"source":"a","renditions":[]}"#, "renditions is empty"),
        ] {
            let error = #expect(throws: JobError.self) { try Job(json: Data(json.utf8)) }
            #expect(error?.message.contains(message) == true, "\(error?.message ?? "")")
        }
    }

    /// Bytes changed, left out and put in: whatever the short way reads, the decoder reads the same.
    @Test func damagedJobsAreReadAsTheDecoderReadsThemOrNotAtAll() {
        var random = SeededGenerator(seed: 7)
        let marks = Array(#"{}[]",:\0123456789.-+eEtrufalsn "#.utf8) + [0, 10, 127, 0x80, 0xC3, 0xFF]
        var read = 0
        for _ in 0..<20_000 {
            var bytes = Array(Self.job.utf8)
            for _ in 0...Int.random(in: 0..<3, using: &random) {
                let place = Int.random(in: 0..<bytes.count, using: &random)
                let mark = marks[Int.random(in: 0..<marks.count, using: &random)]
                switch Int.random(in: 0..<3, using: &random) {
                case 0: bytes[place] = mark
                case 1: bytes.remove(at: place)
                default: bytes.insert(mark, at: place)
                }
            }
            let json = Data(bytes)
            guard let job = Job(plainJSON: json), job.complaint == nil else { continue }
            read += 1
            let decoded = try? JSONDecoder().decode(Job.self, from: json)
            #expect(decoded == job, "\(String(decoding: bytes, as: UTF8.self))")
        }
        #expect(read > 1000)
    }

    @Test func aHeaderIsReadAsTheDecoderReadsIt() throws {
        var metadata = CachedData.Metadata(type: "image/jpeg", etag: "W/\"1\\2\"", lifetime: 60.5)
        (metadata.width, metadata.height, metadata.status, metadata.age) = (3, 4, 200, 1e-7)
        (metadata.stored, metadata.staleIfError) = (1_795_338_000.123, 1e9)
        (metadata.vary, metadata.headers) = (["accept": ""], ["cache-control": "max-age=60", "x-ä": "ü"])
        for metadata in [metadata, CachedData.Metadata(lifetime: 0)] {
            for checksum in [String(repeating: "0a", count: 32), String(repeating: "0b", count: 16)] {
                let header = CacheEntry.Header(length: 5, checksum: checksum, metadata: metadata)
                let json = try #require(header.plainJSON)
                #expect(CacheEntry.Header(plainJSON: json) == header)
                #expect(try JSONDecoder().decode(CacheEntry.Header.self, from: json) == header)
                #expect(header.checksum == checksum)
            }
        }
    }

    @Test func aHeaderThatIsNotPlainIsTheDecodersPart() throws {
        let metadata = CachedData.Metadata(etag: "\t", lifetime: 1)
        let header = CacheEntry.Header(length: 5, checksum: "0b", metadata: metadata)
        let json = try JSONEncoder().encode(header)
        #expect(CacheEntry.Header(plainJSON: json) == nil)
        #expect(CacheEntry.Header(json: ByteBuffer(bytes: json)) == header)
        #expect(CacheEntry.Header(json: ByteBuffer(string: "{")) == nil)
    }

    /// The canonical form of XXH3's 128 bits, as `xxhsum -H2` prints it.
    @Test func theChecksumOfOriginalsIsXXH3() {
        #expect(CacheEntry.xxh3(Data()) == "99aa06d3014798d86001c324468d497f")
        #expect(CacheEntry.xxh3(Data("megaton".utf8)) == "8a1168c82d2c312dcd69697a28af1eee")
    }
}
