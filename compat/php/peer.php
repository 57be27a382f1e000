<?php

// The PHP client, controlled over standard input and output: `php peer.php PORT`.
// One line per request, one line per reply; compat/README.md describes the format.

declare(strict_types=1);

$port = (int) $argv[1];
$vendor = getenv('RSMQ_COMPAT_VENDOR') ?: __DIR__ . '/vendor';
if (is_file("{$vendor}/autoload.php")) {
    require "{$vendor}/autoload.php";
}
$isOriginal = class_exists(\Islambey\RSMQ\RSMQ::class);
if (!$isOriginal) {
    require __DIR__ . '/client.php';
}
$class = $isOriginal ? \Islambey\RSMQ\RSMQ::class : \Rsmq\Compat\Client::class;

function connection(int $port): Redis
{
    $redis = new Redis();
    $redis->connect('127.0.0.1', $port);
    return $redis;
}

/** Returns the arguments with Node's names in the order of PHP's parameters. */
function arguments(string $op, array $args): array
{
    $order = [
        'createQueue' => ['qname', 'vt', 'delay', 'maxsize'],
        'listQueues' => [],
        'setQueueAttributes' => ['qname', 'vt', 'delay', 'maxsize'],
        'changeMessageVisibility' => ['qname', 'id', 'vt'],
        'deleteMessage' => ['qname', 'id'],
    ];
    if (isset($order[$op])) {
        $named = [];
        foreach ($order[$op] as $index => $name) {
            if (array_key_exists($name, $args)) {
                $php = $name === 'maxsize' ? 'maxSize' : $name;
                $named[$index === 0 ? 0 : $php] = $args[$name];
            }
        }
        return $named;
    }
    $options = array_intersect_key($args, ['delay' => 0, 'vt' => 0]);
    return match ($op) {
        'sendMessage' => [$args['qname'], $args['message'], $options],
        'receiveMessage' => [$args['qname'], $options],
        default => [$args['qname']],
    };
}

/** Returns the value in a form that JSON can contain. */
function toJsonValue(mixed $value): mixed
{
    if (is_array($value)) {
        return array_map('toJsonValue', $value);
    }
    if (is_string($value) && !mb_check_encoding($value, 'UTF-8')) {
        return ['$b64' => base64_encode($value)];
    }
    return $value;
}

/** Returns the messages on a channel until none arrives for half a second, with a connection of its own. */
function listen(int $port, string $channel, callable $ready): array
{
    $received = [];
    $subscriber = connection($port);
    $subscriber->setOption(Redis::OPT_READ_TIMEOUT, 0.5);
    $ready();
    try {
        $subscriber->subscribe([$channel], function ($redis, $from, $payload) use (&$received) {
            $received[] = [$from, $payload];
        });
    } catch (RedisException) {
        // No message arrived within the read timeout.
    }
    return $received;
}

$redis = connection($port);
$clients = [];
while (($line = fgets(STDIN)) !== false) {
    $request = json_decode($line, true, flags: JSON_THROW_ON_ERROR);
    $op = $request['op'];
    $args = $request['args'] ?? [];
    $ns = $request['ns'] ?? 'rsmq';
    $isOriginaltime = (bool) ($request['realtime'] ?? false);
    try {
        if ($op === 'version') {
            $result = $isOriginal ? \Composer\InstalledVersions::getPrettyVersion('eislambey/rsmq') : null;
        } elseif ($op === 'forget') {
            unset($clients["{$ns} 0"], $clients["{$ns} 1"]);
            $result = null;
        } elseif ($op === 'listen') {
            $result = listen($port, $args['channel'], function () {
                fwrite(STDOUT, "{\"result\":true}\n");
            });
        } else {
            $key = $ns . ' ' . (int) $isOriginaltime;
            $clients[$key] ??= new $class($redis, $ns, $isOriginaltime);
            $result = $clients[$key]->{$op}(...arguments($op, $args));
        }
        $reply = ['result' => toJsonValue($result)];
    } catch (Throwable $error) {
        $reply = ['error' => ['name' => $error::class, 'message' => $error->getMessage()]];
    }
    fwrite(STDOUT, json_encode($reply, JSON_THROW_ON_ERROR | JSON_UNESCAPED_UNICODE) . "\n");
}
