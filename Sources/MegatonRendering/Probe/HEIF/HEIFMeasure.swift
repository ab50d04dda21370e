/// Walks from a file's primary image down to its coded images, as libheif does when it decodes, and adds up the memory
/// and work of each.
struct HEIFMeasure {
    /// The measured result of decoding one item.
    struct Image {
        var size = PixelSize(width: 0, height: 0)
        /// The size that libheif assumes before it decodes.
        var declared = PixelSize(width: 0, height: 0)
        var sampleBytes = 1
        var hasAlpha = false
        /// Bits for each color sample and for each alpha sample.
        var depth = 8
        var alphaDepth = 0
        /// Peak memory while it is made, including the result, in bytes.
        var peak = 0
        var work = 0
        var decodings = 1

        /// Whether a part is cut out (`clap`), which `size` does not take into account.
        var isCut = false
        /// Levels from this image down to the coded ones.
        var levels = 1

        var pixels: Int { HEIFMeasure.product(size.width, size.height) }
        /// Bytes of the image as RGB, or as RGBA with alpha.
        var bytes: Int { HEIFMeasure.product(pixels, (hasAlpha ? 4 : 3) * sampleBytes) }
    }

    let file: HEIFFile
    var demand = HEIFDemand()
    private var images: [Int: Image] = [:]
    /// Items being measured. Finds cycles made of references of several types.
    private var path: [Int] = []

    init(_ file: HEIFFile) { self.file = file }

    /// - Parameter metadata: Bytes that are kept beside the image.
    mutating func demand(metadata: Int) throws(ImageError) -> HEIFDemand {
        guard let primary = file.primary, let item = file.items[primary] else {
            throw HEIFFile.damage("its primary image is not there.")
        }
        let image = try image(item)
        if image.decodings > HEIFBounds.decodings {
            throw ImageError(
                .imageTooLarge,
                "it is made of images that are made of others, \(Self.count(image.decodings)) of them to decode; "
                    + "the limit is \(HEIFBounds.decodings)."
            )
        }
        // libvips holds another copy, with interleaved channels.
        let peak = Self.sum(max(image.peak, 2 * image.bytes), 2 * metadata)
        let allowed = HEIFBounds.memoryFactor * image.bytes + HEIFBounds.leastMemory + 2 * metadata
        if peak > allowed {
            demand.excess =
                "about \(Self.count(peak >> 20)) MiB of memory would be needed to decode \(image.size) pixels, more "
                + "than four times as much as they are: it is made of images that are much larger or many."
        }
        demand.work = image.work
        demand.bytes = peak
        return demand
    }

    // MARK: - Images

    mutating func image(_ item: HEIFFile.Item) throws(ImageError) -> Image {
        if let known = images[item.id] { return known }
        if path.contains(item.id) {
            throw HEIFFile.damage("image \(item.id) is made of itself.")
        }
        guard path.count < HEIFBounds.depth else { throw Self.tooDeep }
        path.append(item.id)
        defer { path.removeLast() }
        var image: Image
        switch item.type {
        case "av01", "hvc1": image = try coded(item)
        case "grid": image = try grid(item)
        case "iovl": image = try overlay(item)
        case "iden":
            guard let inputs = file.inputs[item.id], inputs.count == 1, let source = file.items[inputs[0]] else {
                throw HEIFFile.damage("image \(item.id) is a copy of no other one.")
            }
            image = try self.image(source)
            image.levels += 1
            checkSize(of: item, image.size, "the image that it is a copy of")
            image.declared = declaredSize(item) ?? image.size
        default:
            throw ImageError(
                .unsupportedFormat,
                "image \(item.id) is of the type \(item.type); av01, hvc1, grid, iovl and iden are read."
            )
        }
        turn(&image, item)
        try addAlpha(&image, item)
        if image.levels > HEIFBounds.depth { throw Self.tooDeep }
        note(image.size, "image \(item.id)")
        images[item.id] = image
        return image
    }

    private mutating func coded(_ item: HEIFFile.Item) throws(ImageError) -> Image {
        let stream = try streamSize(item)
        let name = item.type == "av01" ? "AV1" : "HEVC"
        guard stream.frames > 0, stream.shown.width > 0 else {
            throw HEIFFile.damage("image \(item.id) has no frame in its \(name) stream.")
        }
        let pixels = Self.product(stream.coded.width, stream.coded.height)
        var image = Image()
        image.size = stream.shown
        image.sampleBytes = stream.sampleBytes
        image.depth = stream.depth
        image.work = Self.product(pixels, stream.frames)
        // The images that the decoder holds, libheif's copy of one, and the decoder's block data.
        let held = stream.samples * Double(stream.sampleBytes) * Double(min(stream.frames, 16) + 1) + 2
        // libheif's copy during the conversion to RGB.
        let converted = 9 * Double(stream.sampleBytes)
        image.peak = Self.sum(Self.product(pixels, Int(max(held, converted).rounded(.up))), 3 * item.size)
        note(stream.coded, "the \(name) stream of image \(item.id)")
        checkSize(of: item, stream.shown, "its \(name) stream")
        image.declared = declaredSize(item) ?? stream.shown
        return image
    }

    private mutating func note(_ size: PixelSize, _ name: String) {
        demand.longestSide = max(demand.longestSide, size.width, size.height)
        guard demand.largest.isSmaller(than: size) else { return }
        demand.largest = size
        demand.largestItem = name
    }

    /// Records a contradiction if the size that an image declares differs from its source's.
    mutating func checkSize(of item: HEIFFile.Item, _ size: PixelSize, _ source: String) {
        guard demand.lie == nil, let said = imageProperty(item), !size.isNearly(said) else { return }
        demand.lie = "image \(item.id) says that it has \(said) pixels (ispe), and \(source) has \(size)."
    }

    private func streamSize(_ item: HEIFFile.Item) throws(ImageError) -> CodedSize {
        guard let configuration = file.configuration(of: item) else {
            throw HEIFFile.damage("image \(item.id) has no \(item.type == "av01" ? "av1C" : "hvcC").")
        }
        do throws(ImageError) {
            if item.type == "av01" {
                var stream = AV1Stream()
                let content = configuration.content
                // Four bytes of `av1C`'s own precede the units.
                try stream.read(file.bytes, min(content.lowerBound + 4, content.upperBound)..<content.upperBound)
                return try file.withData(of: item) { data throws(ImageError) in
                    try stream.read(data, 0..<data.count)
                    return stream.size
                }
            }
            var stream = HEVCStream()
            try stream.readConfiguration(file.bytes, configuration.content)
            return try file.withData(of: item) { data throws(ImageError) in
                try stream.read(data)
                return stream.size
            }
        } catch {
            throw ImageError(error.code, "image \(item.id): \(error.message)")
        }
    }

    // MARK: - Properties

    /// Rotations and crops cost a pass over the image each.
    private func turn(_ image: inout Image, _ item: HEIFFile.Item) {
        for property in item.properties.map({ file.properties[$0] }) {
            switch property.type {
            case "irot":
                image.work = Self.sum(image.work, image.pixels)
                image.peak = max(image.peak, Self.product(image.bytes, 2))
                if isQuarterTurn(property) {
                    image.size = PixelSize(width: image.size.height, height: image.size.width)
                }
            case "imir", "clap":
                if property.type == "clap" { image.isCut = true }
                image.work = Self.sum(image.work, image.pixels)
                image.peak = max(image.peak, Self.product(image.bytes, 2))
            default: break
            }
        }
    }

    private func isQuarterTurn(_ irot: Box) -> Bool {
        !irot.content.isEmpty && file.bytes[irot.content.lowerBound] & 1 == 1
    }

    /// The last size that `ispe` declares.
    private func imageProperty(_ item: HEIFFile.Item) -> PixelSize? {
        for index in item.properties.reversed() where file.properties[index].type == "ispe" {
            var reader = ByteReader(file.bytes, file.properties[index].content)
            guard (try? reader.skip(4)) != nil, let width = try? reader.number(4), let height = try? reader.number(4)
            else { return nil }
            return PixelSize(width: width, height: height)
        }
        return nil
    }

    /// The size that libheif derives from the properties alone: `ispe`, cropped and rotated.
    func declaredSize(_ item: HEIFFile.Item) -> PixelSize? {
        guard var size = imageProperty(item) else { return nil }
        for property in item.properties.map({ file.properties[$0] }) {
            switch property.type {
            case "clap": size = cutSize(property) ?? size
            case "irot" where isQuarterTurn(property): size = PixelSize(width: size.height, height: size.width)
            default: break
            }
        }
        return size
    }

    private func cutSize(_ clap: Box) -> PixelSize? {
        var reader = ByteReader(file.bytes, clap.content)
        var sides: [Int] = []
        for _ in 0..<2 {
            guard let above = try? reader.number(4), let below = try? reader.number(4), below > 0 else { return nil }
            sides.append((above + below / 2) / below)
        }
        return PixelSize(width: sides[0], height: sides[1])
    }

    // MARK: - Alpha

    private static let alphaTypes = [
        "urn:mpeg:avc:2015:auxid:1", "urn:mpeg:hevc:2015:auxid:1", "urn:mpeg:mpegB:cicp:systems:auxiliary:alpha",
    ]

    /// libheif uses an alpha channel only if it has the declared size of the image.
    private mutating func addAlpha(_ image: inout Image, _ item: HEIFFile.Item) throws(ImageError) {
        for id in file.auxiliaries[item.id] ?? [] {
            guard let auxiliary = file.items[id], auxiliary.isImage, isAlpha(auxiliary),
                declaredSize(auxiliary) == declaredSize(item)
            else { continue }
            let alpha = try self.image(auxiliary)
            // libheif copies it row by row; rows beyond its end would be read from other memory.
            let isCovered = alpha.size.width >= image.size.width && alpha.size.height >= image.size.height
            if (!isCovered || (alpha.isCut && !isCutAlike(auxiliary, item))) && demand.lie == nil {
                demand.lie =
                    "image \(item.id) has \(image.size) pixels in its stream, and its alpha channel \(alpha.size) or "
                    + "another part of it (clap)."
            }
            image.peak = max(image.peak, Self.sum(image.bytes, alpha.peak))
            image.work = Self.sum(image.work, alpha.work)
            image.decodings = Self.sum(image.decodings, alpha.decodings)
            image.levels = max(image.levels, alpha.levels + 1)
            image.hasAlpha = true
            image.alphaDepth = alpha.depth
        }
    }

    /// Whether two images of the same size have the same region cropped.
    private func isCutAlike(_ first: HEIFFile.Item, _ second: HEIFFile.Item) -> Bool {
        let cuts = [first, second].map { item in
            item.properties.filter { file.properties[$0].type == "clap" }.map { file.properties[$0].content }
        }
        return cuts[0].count == cuts[1].count
            && zip(cuts[0], cuts[1]).allSatisfy { file.bytes[$0].elementsEqual(file.bytes[$1]) }
            && imageProperty(first) == imageProperty(second)
    }

    private func isAlpha(_ item: HEIFFile.Item) -> Bool {
        item.properties.contains { index in
            let property = file.properties[index]
            guard property.type == "auxC", property.content.count > 4 else { return false }
            var reader = ByteReader(file.bytes, property.content.dropFirst(4))
            let text = file.bytes[reader.text()]
            return Self.alphaTypes.contains { text.elementsEqual($0.utf8) }
        }
    }

    // MARK: - Numbers

    /// Saturating arithmetic, because the numbers come from untrusted input.
    static func sum(_ first: Int, _ second: Int) -> Int { min(largestNumber, first + second) }

    static func product(_ first: Int, _ second: Int) -> Int {
        let (product, isBeyond) = first.multipliedReportingOverflow(by: second)
        return isBeyond ? largestNumber : min(largestNumber, product)
    }

    private static let largestNumber = 1 << 60

    private static var tooDeep: ImageError {
        HEIFFile.tooMany("images that are made of others more than \(HEIFBounds.depth) deep")
    }

    private static func count(_ number: Int) -> String {
        number >= largestNumber >> 20 ? "more than can be counted" : "\(number)"
    }
}

extension PixelSize {
    /// Compares by area, saturating instead of overflowing.
    fileprivate func isSmaller(than other: PixelSize) -> Bool {
        HEIFMeasure.product(width, height) < HEIFMeasure.product(other.width, other.height)
    }

    fileprivate func isNearly(_ other: PixelSize) -> Bool {
        abs(width - other.width) <= HEIFBounds.sizeTolerance && abs(height - other.height) <= HEIFBounds.sizeTolerance
    }
}
