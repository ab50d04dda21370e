// Derived images (ISO/IEC 23008-12 sections 6.6.2.2 and 6.6.2.3).
extension HEIFMeasure {
    /// Tiles side by side on a canvas.
    mutating func grid(_ item: HEIFFile.Item) throws(ImageError) -> Image {
        let inputs = file.inputs[item.id] ?? []
        let (rows, columns, size) = try file.withData(of: item) { data throws(ImageError) in
            var reader = ByteReader(data, 0..<data.count)
            let isWide = try Self.isWide(&reader, item)
            let (rows, columns) = (try reader.number(1) + 1, try reader.number(1) + 1)
            return (rows, columns, try Self.size(&reader, isWide ? 4 : 2))
        }
        guard rows * columns == inputs.count else {
            throw HEIFFile.damage(
                "image \(item.id) has a grid of \(columns)x\(rows) tiles, and \(inputs.count) tiles."
            )
        }
        var canvas = try canvas(size, item)
        let tiles = try images(inputs, of: item)
        try checkAlpha(tiles, item)
        try checkCoverage(canvas.size, tiles, columns, item)
        canvas.sampleBytes = max(depthProperty(item) > 8 ? 2 : 1, tiles.map(\.sampleBytes).max() ?? 1)
        canvas.hasAlpha = tiles.contains(where: \.hasAlpha)
        add(tiles, to: &canvas, atATime: HEIFBounds.parallelTiles)
        return canvas
    }

    /// Images on top of each other, each at a position on a canvas.
    mutating func overlay(_ item: HEIFFile.Item) throws(ImageError) -> Image {
        let inputs = file.inputs[item.id] ?? []
        let size = try file.withData(of: item) { data throws(ImageError) in
            var reader = ByteReader(data, 0..<data.count)
            let width = try Self.isWide(&reader, item) ? 4 : 2
            // Skips the color of the canvas.
            try reader.skip(8)
            let size = try Self.size(&reader, width)
            for _ in inputs {
                for _ in 0..<2 where try reader.number(width) >> (8 * width - 1) == 1 {
                    // libheif 1.15 reads beyond the end of a row if an image begins outside of the canvas.
                    throw ImageError(
                        .unsupportedFormat,
                        "image \(item.id) is an overlay with an image to the left of its canvas or above it, which is "
                            + "not read."
                    )
                }
            }
            return size
        }
        var canvas = try canvas(size, item)
        let layers = try images(inputs, of: item)
        try checkAlpha(layers, item)
        add(layers, to: &canvas, atATime: 1)
        return canvas
    }

    /// libheif copies rows of alpha as if alpha samples had the same depth as color samples.
    private func checkAlpha(_ parts: [Image], _ item: HEIFFile.Item) throws(ImageError) {
        for part in parts where part.hasAlpha && part.alphaDepth != part.depth {
            throw HEIFFile.damage(
                "a part of image \(item.id) has \(part.depth) bits a sample, and its alpha channel \(part.alphaDepth)."
            )
        }
    }

    private static func isWide(_ reader: inout ByteReader, _ item: HEIFFile.Item) throws(ImageError) -> Bool {
        let version = try reader.number(1)
        guard version == 0 else {
            throw HEIFFile.damage("image \(item.id) is a \(item.type) of the unknown version \(version).")
        }
        return try reader.number(1) & 1 == 1
    }

    private static func size(_ reader: inout ByteReader, _ width: Int) throws(ImageError) -> PixelSize {
        PixelSize(width: try reader.number(width), height: try reader.number(width))
    }

    private mutating func canvas(_ size: PixelSize, _ item: HEIFFile.Item) throws(ImageError) -> Image {
        guard size.width > 0, size.height > 0 else {
            throw HEIFFile.damage("image \(item.id) has a canvas of \(size) pixels.")
        }
        checkSize(of: item, size, "its canvas")
        var image = Image()
        image.size = size
        image.declared = declaredSize(item) ?? size
        image.decodings = 0
        image.work = Self.product(size.width, size.height)
        return image
    }

    private mutating func images(
        _ inputs: [Int],
        of item: HEIFFile.Item
    ) throws(ImageError) -> [Image] {
        var images: [Image] = []
        for id in inputs {
            guard let input = file.items[id] else {
                throw HEIFFile.damage("image \(item.id) is made of image \(id), which is not there.")
            }
            images.append(try image(input))
        }
        return images
    }

    private func add(_ parts: [Image], to canvas: inout Image, atATime count: Int) {
        for part in parts {
            canvas.work = Self.sum(canvas.work, part.work)
            canvas.decodings = Self.sum(canvas.decodings, part.decodings)
            canvas.levels = max(canvas.levels, part.levels + 1)
        }
        let largest = parts.map { max($0.peak, 2 * $0.bytes) }.max() ?? 0
        canvas.peak = Self.sum(canvas.bytes, Self.product(largest, min(count, parts.count)))
    }

    /// If tiles do not cover the canvas, libheif leaves that memory uninitialized; it may hold parts of another image.
    private func checkCoverage(
        _ size: PixelSize,
        _ tiles: [Image],
        _ columns: Int,
        _ item: HEIFFile.Item
    ) throws(ImageError) {
        var top = 0
        for row in stride(from: 0, to: tiles.count, by: columns) {
            let tiles = tiles[row..<row + columns]
            let height = tiles.last?.declared.height ?? 0
            var left = 0
            for tile in tiles {
                let isWide = tile.size.width >= min(tile.declared.width, size.width - left)
                let isHigh = tile.size.height >= min(height, size.height - top)
                // The size of a cropped tile depends on fractions.
                if !isWide || !isHigh || tile.isCut { throw Self.gap(item, size) }
                left = Self.sum(left, tile.declared.width)
            }
            if left < size.width { throw Self.gap(item, size) }
            top = Self.sum(top, height)
        }
        if top < size.height { throw Self.gap(item, size) }
    }

    private static func gap(_ item: HEIFFile.Item, _ size: PixelSize) -> ImageError {
        HEIFFile.damage("the tiles of image \(item.id) do not cover its \(size) pixels.")
    }

    /// Bits for each sample according to `pixi`, 0 if it is missing.
    private func depthProperty(_ item: HEIFFile.Item) -> Int {
        for index in item.properties where file.properties[index].type == "pixi" {
            let content = file.properties[index].content
            return content.count > 5 ? Int(file.bytes[content.lowerBound + 5]) : 0
        }
        return 0
    }
}
