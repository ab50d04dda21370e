public import Foundation

/// Writes HEIF and AVIF files box by box (ISO/IEC 23008-12), valid and invalid ones.
public struct HEIFWriter: Sendable {
    /// A range of bytes of a blob, or of the file if the blob is nil.
    public struct Extent: Sendable {
        public var blob: Int?
        public var offset: Int
        public var length: Int

        public init(blob: Int?, offset: Int = 0, length: Int) {
            self.blob = blob
            self.offset = offset
            self.length = length
        }
    }

    public struct Item: Sendable {
        public var id: Int
        public var type: String
        /// Indices counted from 1.
        public var properties: [Int]
        public var extents: [Extent]
        public var isHidden = false
        /// Encoding of a `mime` item.
        public var encoding = ""

        public init(_ id: Int, _ type: String, properties: [Int] = [], extents: [Extent] = []) {
            self.id = id
            self.type = type
            self.properties = properties
            self.extents = extents
        }
    }

    public struct Reference: Sendable {
        public var type: String
        public var from: Int
        public var to: [Int]

        public init(_ type: String, _ from: Int, _ to: [Int]) {
            self.type = type
            self.from = from
            self.to = to
        }
    }

    public var brand = "avif"
    public var primary = 1
    public var items: [Item] = []
    public var references: [Reference] = []
    /// Boxes of `ipco`.
    public var properties: [Data] = []
    /// Parts of `mdat`.
    public var blobs: [Data] = []
    /// Boxes at the end of `meta`.
    public var extras: [Data] = []
    /// Whether `meta` has a size of 64 bits.
    public var isWide = false

    public init() {}

    // MARK: - Adding

    /// - Returns: the property's index, counted from 1.
    @discardableResult public mutating func add(property: Data) -> Int {
        properties.append(property)
        return properties.count
    }

    @discardableResult public mutating func add(blob: Data) -> Int {
        blobs.append(blob)
        return blobs.count - 1
    }

    /// Adds an item with all of a blob's bytes.
    public mutating func add(_ id: Int, _ type: String, properties: [Int] = [], blob: Int) {
        items.append(
            Item(id, type, properties: properties, extents: [Extent(blob: blob, length: blobs[blob].count)])
        )
    }

    // MARK: - Boxes

    /// - Parameter isWide: whether to write a size of 64 bits.
    public static func box(_ type: String, _ content: Data, isWide: Bool = false) -> Data {
        isWide
            ? big(1, 4) + Data(type.utf8) + big(content.count + 16, 8) + content
            : big(content.count + 8, 4) + Data(type.utf8) + content
    }

    public static func full(_ type: String, version: Int = 0, flags: Int = 0, _ content: Data) -> Data {
        box(type, big(version, 1) + big(flags, 3) + content)
    }

    public static func big(_ number: Int, _ count: Int) -> Data {
        Data((0..<count).reversed().map { UInt8(truncatingIfNeeded: number >> ($0 * 8)) })
    }

    public static func ispe(_ width: Int, _ height: Int) -> Data { full("ispe", big(width, 4) + big(height, 4)) }

    public static func auxC(_ type: String) -> Data { full("auxC", Data(type.utf8) + [0]) }

    /// The bytes of a `grid` item.
    public static func grid(rows: Int, columns: Int, _ width: Int, _ height: Int) -> Data {
        Data([0, 1, UInt8(rows - 1), UInt8(columns - 1)]) + big(width, 4) + big(height, 4)
    }

    /// The bytes of an `iovl` item.
    public static func overlay(_ width: Int, _ height: Int, at places: [(x: Int, y: Int)]) -> Data {
        places.reduce(Data([0, 1]) + Data(count: 8) + big(width, 4) + big(height, 4)) {
            $0 + big($1.x, 4) + big($1.y, 4)
        }
    }

    // MARK: - File

    public func data() -> Data {
        let ftyp = Self.box("ftyp", Data(brand.utf8) + Data(count: 4) + Data("\(brand)mif1miaf".utf8))
        // The length of `meta` does not depend on the offsets in it.
        let start = ftyp.count + meta(start: 0).count + 8
        return ftyp + meta(start: start) + Self.box("mdat", blobs.reduce(Data(), +))
    }

    private func meta(start: Int) -> Data {
        let hdlr = Self.full("hdlr", Data(count: 4) + Data("pict".utf8) + Data(count: 13))
        let boxes: [Data] = [
            hdlr, Self.full("pitm", version: 1, Self.big(primary, 4)), iinf, iloc(start), iref, iprp,
        ]
        return Self.box("meta", Data(count: 4) + (boxes + extras).reduce(Data(), +), isWide: isWide)
    }

    private var iinf: Data {
        var content = Self.big(items.count, 4)
        for item in items {
            var entry = Self.big(item.id, 4) + Self.big(0, 2) + Data(item.type.utf8) + [0]
            if item.type == "mime" { entry += Data("application/rdf+xml\0\(item.encoding)\0".utf8) }
            content += Self.full("infe", version: 3, flags: item.isHidden ? 1 : 0, entry)
        }
        return Self.full("iinf", version: 1, content)
    }

    private func iloc(_ start: Int) -> Data {
        var places: [Int] = []
        var end = start
        for blob in blobs {
            places.append(end)
            end += blob.count
        }
        var content = Data([0x88, 0]) + Self.big(items.count, 4)
        for item in items {
            content += Self.big(item.id, 4) + Data(count: 4) + Self.big(item.extents.count, 2)
            for extent in item.extents {
                content += Self.big((extent.blob.map { places[$0] } ?? 0) + extent.offset, 8)
                content += Self.big(extent.length, 8)
            }
        }
        return Self.full("iloc", version: 2, content)
    }

    private var iref: Data {
        references.isEmpty
            ? Data()
            : Self.full(
                "iref",
                version: 1,
                references.reduce(Data()) { boxes, reference in
                    let to = reference.to.reduce(Data()) { $0 + Self.big($1, 4) }
                    return boxes
                        + Self.box(
                            reference.type,
                            Self.big(reference.from, 4) + Self.big(reference.to.count, 2) + to
                        )
                }
            )
    }

    private var iprp: Data {
        var content = Self.big(items.count, 4)
        for item in items {
            content += Self.big(item.id, 4) + Self.big(item.properties.count, 1)
            for property in item.properties { content += Self.big(property, 2) }
        }
        let ipma = Self.full("ipma", version: 1, flags: 1, content)
        return Self.box("iprp", Self.box("ipco", properties.reduce(Data(), +)) + ipma)
    }
}
