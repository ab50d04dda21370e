/// The items of a HEIF or AVIF file and their relations (ISO/IEC 23008-12), read from its boxes in one bounded pass. A
/// file that can be read in two ways is refused, because libheif could choose the other one.
struct HEIFFile {
    struct Item {
        let id: Int
        let type: FourCC
        /// Whether its bytes are compressed with deflate; libheif inflates them while it reads the header.
        let isDeflated: Bool
        /// Ranges of the file, in order.
        var extents: [Range<Int>] = []
        /// Why its bytes cannot be read.
        var obstacle: String?
        /// Indexes into the file's properties, in their order.
        var properties: [Int] = []

        var size: Int { extents.reduce(0) { $0 + $1.count } }
        /// Whether it is a coded or derived image, as opposed to Exif and the like.
        var isImage: Bool { isCoded || isDerived }
        var isCoded: Bool { type == "av01" || type == "hvc1" }
        var isDerived: Bool { type == "grid" || type == "iovl" || type == "iden" }
    }

    struct Reference {
        let type: FourCC
        let from: Int
        let to: [Int]
    }

    let bytes: UnsafeRawBufferPointer
    var items: [Int: Item] = [:]
    /// Item IDs, in the order of `iinf`.
    var order: [Int] = []
    var primary: Int?
    var properties: [Box] = []
    var references: [Reference] = []
    /// Inputs of each derived image, in their order.
    var inputs: [Int: [Int]] = [:]
    /// Auxiliary images of each image.
    var auxiliaries: [Int: [Int]] = [:]

    /// - Parameter bytes: The whole file; must outlive the value.
    /// - Throws: `.corruptImage` for a file that is truncated, damaged or contradicts itself; `.headerTooLarge`.
    init(_ bytes: UnsafeRawBufferPointer) throws(ImageError) {
        self.bytes = bytes
        guard let meta = try Self.meta(bytes) else {
            throw Self.damage("it has no box meta, which lists the images of the file.")
        }
        var boxes = MetaBoxes()
        try boxes.read(bytes, meta)
        guard let iinf = boxes.found["iinf"], let iloc = boxes.found["iloc"], let pitm = boxes.found["pitm"],
            boxes.found["ipco"] != nil
        else {
            let missing = ["iinf", "iloc", "pitm", "ipco"].filter { boxes.found[$0] == nil }
            throw Self.damage("its box meta has no \(missing.map(\.description).joined(separator: ", ")).")
        }
        properties = boxes.properties
        try readItems(iinf)
        try readPrimary(pitm)
        try readLocations(iloc, idat: boxes.found["idat"])
        var links = 0
        for box in boxes.associations { try readAssociations(box, &links) }
        if let iref = boxes.found["iref"] { try readReferences(iref, &links) }
        try linkReferences()
    }

    static func damage(_ text: String) -> ImageError { ImageError(.corruptImage, text) }

    static func tooMany(_ text: String) -> ImageError {
        ImageError(.headerTooLarge, "the header has \(text).")
    }

    /// Box types that libheif reads at any level. Valid files have them only in `meta`.
    private static let inner: Set<FourCC> = [
        "hdlr", "pitm", "iloc", "iinf", "infe", "iprp", "ipco", "ipma", "ispe", "auxC", "irot", "imir", "clap", "iref",
        "hvcC", "av1C", "vvcC", "avcC", "idat", "grpl", "dinf", "dref", "url ", "colr", "pixi", "pasp", "clli", "mdcv",
    ]

    /// The content of the only `meta` box.
    private static func meta(_ bytes: UnsafeRawBufferPointer) throws(ImageError) -> Range<Int>? {
        var reader = ByteReader(bytes, 0..<bytes.count)
        var (found, count): (Range<Int>?, Int) = (nil, 0)
        while reader.remaining >= 8 {
            let start = reader.index
            let box: Box?
            do throws(ImageError) {
                box = try reader.box()
            } catch {
                // The last box may reach to the end of the file, and bytes after it are ignored; libheif stops here,
                // too. A truncated `meta` is damage.
                var header = ByteReader(bytes, start + 4..<bytes.count)
                if found == nil, FourCC(try header.number(4)) == "meta" { throw error }
                return found
            }
            guard let box else { break }
            count += 1
            if count > HEIFBounds.boxes { throw tooMany("more than \(HEIFBounds.boxes) boxes") }
            switch box.type {
            case "meta":
                if found != nil { throw damage("it has two boxes meta.") }
                found = box.content
            case "ftyp":
                if box.content.count > HEIFBounds.brands { throw tooMany("a box ftyp of \(box.content.count) bytes") }
            default:
                if inner.contains(box.type) { throw damage("the box \(box.type) lies outside of the box meta.") }
            }
        }
        return found
    }
}

/// Child boxes of `meta`, each in its place and present once.
struct MetaBoxes {
    /// Contents by type, including `ipco` of `iprp`.
    private(set) var found: [FourCC: Range<Int>] = [:]
    private(set) var properties: [Box] = []
    private(set) var associations: [Range<Int>] = []
    private var count = 0

    private static let single: Set<FourCC> = ["hdlr", "pitm", "iloc", "iinf", "iprp", "iref", "idat", "dinf", "grpl"]
    /// Boxes that contain boxes.
    private static let containers: Set<FourCC> = [
        "meta", "iinf", "infe", "iloc", "iprp", "ipco", "ipma", "iref", "pitm", "idat", "grpl", "dinf", "dref", "url ",
    ]

    mutating func read(_ bytes: UnsafeRawBufferPointer, _ meta: Range<Int>) throws(ImageError) {
        var reader = ByteReader(bytes, meta)
        // Skips version and flags.
        try reader.skip(4)
        while let box = try next(&reader) {
            if Self.single.contains(box.type) {
                guard found[box.type] == nil else { throw HEIFFile.damage("it has two boxes \(box.type).") }
                found[box.type] = box.content
                if box.type == "iprp" { try readProperties(bytes, box.content) }
            } else if Self.containers.contains(box.type) {
                throw HEIFFile.damage("the box \(box.type) is in the wrong place.")
            }
        }
        let size = meta.count - (found["idat"]?.count ?? 0)
        if size > HEIFBounds.meta { throw HEIFFile.tooMany("\(size) bytes; the limit is \(HEIFBounds.meta)") }
        // libheif parses boxes inside both of them, although neither affects an image.
        for type: FourCC in ["dinf", "grpl"] {
            if let content = found[type], content.count > HEIFBounds.brands {
                throw HEIFFile.tooMany("a box \(type) of \(content.count) bytes")
            }
        }
    }

    private mutating func readProperties(
        _ bytes: UnsafeRawBufferPointer,
        _ content: Range<Int>
    ) throws(ImageError) {
        var reader = ByteReader(bytes, content)
        while let box = try next(&reader) {
            if box.type == "ipma" {
                associations.append(box.content)
            } else if box.type == "ipco" {
                guard found["ipco"] == nil else { throw HEIFFile.damage("it has two boxes ipco.") }
                found["ipco"] = box.content
                var inner = ByteReader(bytes, box.content)
                while let property = try next(&inner) {
                    if Self.containers.contains(property.type) {
                        throw HEIFFile.damage("the box \(property.type) is in the wrong place.")
                    }
                    properties.append(property)
                }
            } else if Self.containers.contains(box.type) {
                throw HEIFFile.damage("the box \(box.type) is in the wrong place.")
            }
        }
    }

    private mutating func next(_ reader: inout ByteReader) throws(ImageError) -> Box? {
        count += 1
        if count > HEIFBounds.boxes { throw HEIFFile.tooMany("more than \(HEIFBounds.boxes) boxes") }
        return try reader.box()
    }
}
