/// Limits on the header of a HEIF or AVIF file. libheif 1.15 copies the bytes of every item while it reads the header,
/// and searches the list of all items for each of them: 20,000 items take 36 s, and 20 items that share the same
/// megabyte 32 times take 3 GB.
enum HEIFBounds {
    /// Items of a file. An image of 200 megapixels from a phone has 768 tiles.
    static let items = 2048
    /// Extents of all items together.
    static let extents = 8192
    /// Boxes within `meta`, and boxes at the top level.
    static let boxes = 16_384
    /// Associations of items with properties, and items named by references.
    static let links = 65_536
    /// Bytes of `meta` without `idat`: libheif copies them one by one.
    static let meta = 16 << 20
    /// Bytes of `ftyp`.
    static let brands = 64 << 10
    /// Bytes of Exif, XMP and profiles: all of them are copied, and kept with the image.
    static let metadata = 16 << 20
    /// Bytes that all items copy, as a multiple of the file's size. Items may share bytes, e.g. tiles of a single
    /// color.
    static let copies = 4
    /// Bytes that may be copied even if the file is small.
    static let leastCopies = 32 << 20
    /// The largest factor by which deflate expands a byte (RFC 1951: 258 bytes for 2 bits).
    static let inflation = 1032
    /// Levels of derived images from the primary image down to a coded one.
    static let depth = 8
    /// Coded images that are decoded for one image, each counted as often as it is used.
    static let decodings = 4096
    /// Tolerated difference, in pixels of each side, between the size of a coded image and the size that its properties
    /// declare. HEVC blocks have up to 64 pixels, and a size may have been rounded up to whole blocks.
    static let sizeTolerance = 63
    /// Tiles that libheif decodes at a time.
    static let parallelTiles = 4
    /// Bytes that decoding may take for each byte of the decoded image.
    static let memoryFactor = 4
    /// Bytes that decoding may take for any image: a small canvas may have a tile of 512x512.
    static let leastMemory = 32 << 20
}
