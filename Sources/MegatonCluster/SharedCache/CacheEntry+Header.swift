internal import Foundation
internal import MegatonPipeline
internal import NIOCore

extension CacheEntry {
    /// Content of the field `m`.
    struct Header: Codable, Equatable {
        /// Size of the data, bytes.
        let length: Int
        /// SHA-256 of the data of a rendition, hex, as job outcomes report it.
        private(set) var sha256: String?
        /// XXH3, 128 bits, of all other data, hex. An original is a hundred times as large as its renditions, and
        /// SHA-256 took as long as all of its scaling.
        private(set) var xxh3: String?
        let metadata: CachedData.Metadata

        init(length: Int, checksum: String, metadata: CachedData.Metadata) {
            self.length = length
            self.metadata = metadata
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
extension CacheEntry.Header {
    /// The same JSON as the encoder's, except for the order of the fields; nil if a string in it is not plain.
    var plainJSON: Data? {
        var json = PlainJSON(capacity: 512)
        json.open("{")
        json.field("length", length)
        json.name("metadata")
        json.open("{")
        json.field("age", metadata.age)
        json.field("etag", metadata.etag)
        json.field("generation", metadata.generation)
        json.field("headers", metadata.headers)
        json.field("height", metadata.height)
        json.field("lastModified", metadata.lastModified)
        json.field("lifetime", metadata.lifetime)
        json.field("notes", metadata.notes)
        json.field("staleIfError", metadata.staleIfError)
        json.field("staleWhileRevalidate", metadata.staleWhileRevalidate)
        json.field("status", metadata.status)
        json.field("stored", metadata.stored)
        json.field("type", metadata.type)
        json.field("vary", metadata.vary)
        json.field("width", metadata.width)
        json.close("}")
        json.field("sha256", sha256)
        json.field("xxh3", xxh3)
        json.close("}")
        return json.isPlain ? json.data : nil
    }

    /// Nil if the JSON is not plain, or has fields that this version does not know.
    init?(plainJSON json: Data) {
        var (length, checksum, metadata) = (Int?.none, String?.none, CachedData.Metadata?.none)
        let isRead = PlainJSONReader.read(json) { reader in
            reader.object { reader, name in
                switch name {
                case "length": length = reader.int()
                case "sha256", "xxh3":
                    guard checksum == nil, let text = reader.string() else { return false }
                    checksum = text
                    return (text.utf8.count == Checksum.sha256Digits) == (name == "sha256")
                case "metadata": metadata = CachedData.Metadata(&reader)
                default: return false
                }
                return name == "length" ? length != nil : metadata != nil
            } ? true : nil
        }
        guard isRead != nil, let length, let checksum, let metadata else { return nil }
        self.init(length: length, checksum: checksum, metadata: metadata)
    }
}

extension CachedData.Metadata {
    fileprivate init?(_ reader: inout PlainJSONReader) {
        self.init(lifetime: -1)
        var metadata = self
        let isRead = reader.object { reader, name in metadata.read(name, &reader) }
        guard isRead, metadata.lifetime >= 0 else { return nil }
        self = metadata
    }

    private mutating func read(_ name: String, _ reader: inout PlainJSONReader) -> Bool {
        func set<Value>(_ field: WritableKeyPath<Self, Value?>, _ value: Value?) -> Bool {
            self[keyPath: field] = value
            return value != nil
        }
        return switch name {
        case "age": set(\.age, reader.double())
        case "etag": set(\.etag, reader.string())
        case "generation": set(\.generation, reader.string())
        case "headers": set(\.headers, reader.texts())
        case "height": set(\.height, reader.int())
        case "lastModified": set(\.lastModified, reader.string())
        case "lifetime":
            reader.double().map { lifetime = $0 } != nil
        case "notes": set(\.notes, reader.strings())
        case "staleIfError": set(\.staleIfError, reader.double())
        case "staleWhileRevalidate": set(\.staleWhileRevalidate, reader.double())
        case "status": set(\.status, reader.int())
        case "stored": set(\.stored, reader.double())
        case "type": set(\.type, reader.string())
        case "vary": set(\.vary, reader.texts())
        case "width": set(\.width, reader.int())
        default: false
        }
    }
}
