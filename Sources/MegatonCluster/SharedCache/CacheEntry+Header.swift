internal import Foundation
internal import MegatonPipeline
internal import NIOCore

extension CacheEntry {
    /// Content of the field `m`.
    struct Header: Codable, Equatable {
        /// Size of the data, bytes.
        private(set) var length: Int
        /// SHA-256 of the data of a rendition, hex, as job outcomes report it.
        private(set) var sha256: String?
        /// XXH3, 128 bits, of all other data, hex. An original is a hundred times as large as its renditions, and
        /// SHA-256 took as long as all of its scaling.
        private(set) var xxh3: String?
        private(set) var metadata: CachedData.Metadata

        fileprivate init(length: Int, metadata: CachedData.Metadata) {
            self.length = length
            self.metadata = metadata
        }

        init(length: Int, checksum: String, metadata: CachedData.Metadata) {
            self.init(length: length, metadata: metadata)
            if checksum.utf8.count == Checksum.sha256Digits { sha256 = checksum } else { xxh3 = checksum }
        }

        /// Nil if the JSON cannot be read.
        init?(json bytes: ByteBuffer) {
            let json = Data(bytes.readableBytesView)
            // The caller drops and logs an entry with an unreadable header.
            guard let header = Self(plainJSON: json) ?? (try? JSONDecoder().decode(Self.self, from: json)) else {
                return nil
            }
            self = header
        }

        /// Checksum that verifies the data; nil if there is none, or if another version chose an unknown kind.
        var checksum: String? { sha256 ?? xxh3 }
    }
}

/// Fast paths to JSON and back.
extension CacheEntry.Header: PlainObject {
    mutating func visit(_ visitor: inout some PlainVisitor) {
        visitor.field("length", &length)
        visitor.field("metadata", &metadata)
        visitor.field("sha256", &sha256)
        visitor.field("xxh3", &xxh3)
    }

    static var empty: Self { Self(length: -1, metadata: .empty) }

    var isComplete: Bool {
        guard length >= 0, metadata.isComplete, let checksum, sha256 == nil || xxh3 == nil else { return false }
        return (checksum.utf8.count == Checksum.sha256Digits) == (sha256 != nil)
    }

    /// The same JSON as the encoder's, except for the order of the fields; nil if a string in it is not plain.
    var plainJSON: Data? {
        var json = PlainJSON(capacity: 512)
        write(to: &json)
        return json.isPlain ? json.data : nil
    }

    /// Nil if the JSON is not plain, or has fields that this version does not know.
    init?(plainJSON json: Data) {
        guard let header = PlainJSONReader.read(json, Self.read) else { return nil }
        self = header
    }
}

extension CachedData.Metadata: PlainObject {
    mutating func visit(_ visitor: inout some PlainVisitor) {
        visitor.field("address", &address)
        visitor.field("age", &age)
        visitor.field("etag", &etag)
        visitor.field("facts", &facts)
        visitor.field("fetched", &fetched)
        visitor.field("generation", &generation)
        visitor.field("headers", &headers)
        visitor.field("height", &height)
        visitor.field("lastModified", &lastModified)
        visitor.field("lifetime", &lifetime)
        visitor.field("notes", &notes)
        visitor.field("rendition", &rendition)
        visitor.field("responder", &responder)
        visitor.field("score", &score)
        visitor.field("source", &source)
        visitor.field("staleIfError", &staleIfError)
        visitor.field("staleWhileRevalidate", &staleWhileRevalidate)
        visitor.field("status", &status)
        visitor.field("stored", &stored)
        visitor.field("type", &type)
        visitor.field("vary", &vary)
        visitor.field("width", &width)
    }

    static var empty: Self { Self(lifetime: -1) }

    var isComplete: Bool { lifetime >= 0 }
}
